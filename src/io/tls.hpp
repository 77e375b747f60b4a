// Session over TLS 1.3 (OpenSSL), mutual: each end proves that it has the key of its
// peer id. Certificates are self-signed; names, dates and chains play no part. Then each proves
// that it has the swarm's secret, if there is one, by an HMAC of keying material exported from this
// session (RFC 8446, 7.5): nobody can pass it on. Open peers do the same with a fixed key, so an
// open peer and one with a secret can tell that they differ.
#pragma once

#include <memory>
#include <optional>

#include <openssl/ssl.h>

#include "base/result.hpp"
#include "io/identity.hpp"
#include "io/secret.hpp"
#include "io/session.hpp"

namespace starling::io {

/// The state that all TLS sessions of a peer share.
class TlsContext {
 public:
  /// Without a secret, it admits ends that have none.
  [[nodiscard]] static base::Result<TlsContext> create(const Identity& identity,
                                                       const std::optional<Secret>& secret);

  /// A new session. The first output() of a dialer starts the handshake. The listener answers the
  /// dialer's proof with its verdict: a TLS 1.3 client finishes before it is judged, but a dialer's
  /// session is established only after the verdict. Error: internal (out of memory).
  [[nodiscard]] base::Result<std::unique_ptr<Session>> session(Role role) const;

 private:
  struct Deleter {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, Deleter> context_;
  std::optional<Secret> secret_;
};

}  // namespace starling::io
