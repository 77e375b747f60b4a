#include "io/identity.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kKeyFileMax = 16 * 1024;
// Dates of certificates: 1970 to 9999, so that no peer's clock can ever refuse one.
constexpr const char* kNotBefore = "19700101000000Z";
constexpr const char* kNotAfter = "99991231235959Z";

struct BioDeleter {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioDeleter>;

tl::unexpected<base::Error> openssl_failure(const char* what) {
  return base::fail(base::ErrorCode::internal, "OpenSSL cannot {}: {}", what, take_openssl_error());
}

base::Result<Key> make_key() {
  Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (!key) return openssl_failure("make an Ed25519 key");
  return key;
}

base::Result<Certificate> make_certificate(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  bool ok = certificate != nullptr && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
            ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1) == 1 &&
            ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate.get()), kNotBefore) == 1 &&
            ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate.get()), kNotAfter) == 1;
  if (ok) {
    X509_NAME* name = X509_get_subject_name(certificate.get());
    const auto* text = reinterpret_cast<const unsigned char*>("starling peer");
    ok = X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate.get(), name) == 1 &&
         X509_set_pubkey(certificate.get(), key) == 1 &&
         X509_sign(certificate.get(), key, nullptr) > 0;
  }
  if (!ok) return openssl_failure("make a certificate");
  return certificate;
}

/// Never asks on the terminal for the password of an encrypted file.
int no_password(char*, int, int, void*) { return -1; }

base::Result<Key> read_key(const std::string& path) {
  const auto advice = "restore it from a copy, or remove it: the peer then gets a new identity";
  auto content = base::read_file(path, kKeyFileMax);
  if (!content) return base::fail(std::move(content.error()));
  const Bio bio(BIO_new_mem_buf(content->data(), static_cast<int>(content->size())));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  OPENSSL_cleanse(content->data(), content->size());
  if (!key) {
    return base::fail(base::ErrorCode::data,
                      "{}: is not an unencrypted private key in PEM ({}); {}", path,
                      take_openssl_error(), advice);
  }
  ERR_clear_error();
  if (EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    return base::fail(base::ErrorCode::data, "{}: holds a key that is not Ed25519; {}", path,
                      advice);
  }
  return key;
}

base::Status write_key(const std::string& path, EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_secmem()));
  if (!bio ||
      PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_failure("write a key");
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  auto created =
      base::create_private_file(path, base::bytes_of(text, static_cast<std::size_t>(size)));
  if (!created) return base::fail(std::move(created.error()));
  return {};
}

}  // namespace

std::string take_openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : fmt::format("error {:x}", code);
}

base::Result<base::PeerId> peer_id_of(const X509& certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(&certificate), &der);
  if (size <= 0) return openssl_failure("read a public key");
  base::PeerId id;
  SHA256(der, static_cast<std::size_t>(size), id.bytes.data());
  OPENSSL_free(der);
  return id;
}

base::Result<Identity> Identity::from_key(Key key) {
  auto certificate = make_certificate(key.get());
  if (!certificate) return base::fail(std::move(certificate.error()));
  auto id = peer_id_of(**certificate);
  if (!id) return base::fail(std::move(id.error()));
  Identity identity;
  identity.key_ = std::move(key);
  identity.certificate_ = std::move(*certificate);
  identity.id_ = *id;
  return identity;
}

base::Result<Identity> Identity::generate() {
  auto key = make_key();
  if (!key) return base::fail(std::move(key.error()));
  return from_key(std::move(*key));
}

base::Result<Identity> Identity::load_or_create(const std::string& folder) {
  const std::string path = folder + "/key.pem";
  std::error_code unknown;
  if (std::filesystem::symlink_status(path, unknown).type() ==
      std::filesystem::file_type::not_found) {
    auto key = make_key();
    if (!key) return base::fail(std::move(key.error()));
    if (auto written = write_key(path, key->get()); !written) {
      return base::fail(std::move(written.error()));
    }
  }
  auto key = read_key(path);
  if (!key) return base::fail(std::move(key.error()));
  return from_key(std::move(*key));
}

}  // namespace starling::io
