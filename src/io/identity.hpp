// A peer's identity: an Ed25519 key pair and a certificate that carries it.
#pragma once

#include <memory>
#include <string>

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/peer_id.hpp"
#include "base/result.hpp"

namespace starling::io {

struct KeyDeleter {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};
struct CertificateDeleter {
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
};
using Key = std::unique_ptr<EVP_PKEY, KeyDeleter>;
using Certificate = std::unique_ptr<X509, CertificateDeleter>;

/// A key pair with a self-signed certificate made for it. The certificate is only the form in which
/// TLS carries the public key: its names and dates have no meaning and are not checked.
class Identity {
 public:
  /// Reads <folder>/key.pem; makes and stores it (mode 0600, whole or not at all) if there is none.
  /// The folder must exist. Errors (data) name the file, what is wrong and what to do.
  [[nodiscard]] static base::Result<Identity> load_or_create(const std::string& folder);
  /// A new key that is not stored.
  [[nodiscard]] static base::Result<Identity> generate();

  [[nodiscard]] const base::PeerId& id() const noexcept { return id_; }
  [[nodiscard]] EVP_PKEY* key() const noexcept { return key_.get(); }
  [[nodiscard]] X509* certificate() const noexcept { return certificate_.get(); }

 private:
  Identity() = default;
  [[nodiscard]] static base::Result<Identity> from_key(Key key);

  Key key_;
  Certificate certificate_;
  base::PeerId id_;
};

/// SHA-256 of the certificate's public key (DER of its SubjectPublicKeyInfo). Error: internal.
[[nodiscard]] base::Result<base::PeerId> peer_id_of(const X509& certificate);

/// The text of OpenSSL's oldest pending error of this thread; clears them all.
[[nodiscard]] std::string take_openssl_error();

}  // namespace starling::io
