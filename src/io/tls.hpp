// Session over TLS 1.3 (OpenSSL, memory BIOs), mutual: each end proves that it has the key of its
// peer id. Certificates are self-signed; names, dates and chains play no part.
#pragma once

#include <memory>

#include <openssl/ssl.h>

#include "base/result.hpp"
#include "io/identity.hpp"
#include "io/session.hpp"

namespace starling::io {

/// What all TLS sessions of a peer share.
class TlsContext {
 public:
  [[nodiscard]] static base::Result<TlsContext> create(const Identity& identity);

  /// A new session. The first output() of a dialer starts the handshake. The listener confirms
  /// the handshake with one byte: a TLS 1.3 client is done before it was judged, but a dialer's
  /// session is established only when it was. Error: internal (out of memory).
  [[nodiscard]] base::Result<std::unique_ptr<Session>> session(Role role) const;

 private:
  struct Deleter {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
  };
  std::unique_ptr<SSL_CTX, Deleter> context_;
};

}  // namespace starling::io
