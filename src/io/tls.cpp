#include "io/tls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/x509_vfy.h>

#include "base/assert.hpp"

namespace starling::io {
namespace {

constexpr long kCertificatesMax = 4096;  // bytes of the other end's certificates
constexpr std::byte kAdmitted{1};
constexpr std::byte kTurnedAway{2};
// OpenSSL's own output once the handshake is over, until there is credit for it: alerts. Peers
// never request new keys; an end that requests them over and over, and grants no credit, would fill
// the memory with answers.
constexpr std::size_t kUnaskedMax = 4096;
constexpr int kTlsHandshakeRecord = 0x16;
constexpr int kTlsAlertRecord = 0x15;

/// The key of a swarm that has no secret.
constexpr std::array<std::byte, Secret::kSize> kOpen{};
using Proof = std::array<std::byte, 32>;
/// The listener's answer: kAdmitted and its own proof, or kTurnedAway and zeros.
using Verdict = std::array<std::byte, 1 + std::tuple_size_v<Proof>>;

struct SslDeleter {
  void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
};
using Ssl = std::unique_ptr<SSL, SslDeleter>;

/// Accepts a single certificate, signed by anybody: the peer id is the hash of its key, and TLS
/// itself proves that the other end has that key. OpenSSL calls this more than once.
int accept_any_key(int, X509_STORE_CTX* store) {
  if (X509_STORE_CTX_get_error_depth(store) != 0) return 0;
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return 1;
}

/// The bytes below a session: OpenSSL reads received bytes in place, and writes its records into
/// the output stream.
class Pipe {
 public:
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() = default;

  /// Drops the earlier bytes that OpenSSL has taken: usually all, since it keeps incomplete records
  /// itself.
  void receive(base::Bytes bytes) {
    if (taken_ < in_.size()) {
      bytes.insert(bytes.begin(), in_.begin() + static_cast<std::ptrdiff_t>(taken_), in_.end());
    }
    in_ = std::move(bytes);
    taken_ = 0;
  }
  /// OpenSSL's output goes to the end of `stream`, until it is told to keep it.
  void send_to(base::Bytes& stream) {
    stream.insert(stream.end(), kept_.begin(), kept_.end());
    kept_.clear();
    out_ = &stream;
  }
  void keep() noexcept { out_ = &kept_; }
  /// Kept output that was not requested yet.
  [[nodiscard]] std::size_t kept() const noexcept { return kept_.size(); }

  /// A BIO of this, which must outlive it. Null: out of memory.
  [[nodiscard]] BIO* make_bio() {
    BIO* const bio = BIO_new(method());
    if (bio != nullptr) BIO_set_data(bio, this);
    return bio;
  }

 private:
  static Pipe& of(BIO* bio) { return *static_cast<Pipe*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* to, int size) {
    Pipe& pipe = of(bio);
    BIO_clear_retry_flags(bio);
    const std::size_t count =
        std::min(static_cast<std::size_t>(std::max(size, 0)), pipe.in_.size() - pipe.taken_);
    if (count == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(to, pipe.in_.data() + pipe.taken_, count);
    pipe.taken_ += count;
    return static_cast<int>(count);
  }

  static int write(BIO* bio, const char* from, int size) {
    const base::ByteView bytes = base::bytes_of(from, static_cast<std::size_t>(size));
    base::Bytes& out = *of(bio).out_;
    out.insert(out.end(), bytes.begin(), bytes.end());
    return size;
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  /// Of all pipes; null: out of memory.
  static const BIO_METHOD* method() {
    struct Deleter {
      void operator()(BIO_METHOD* made) const noexcept { BIO_meth_free(made); }
    };
    static const std::unique_ptr<BIO_METHOD, Deleter> kMethod = [] {
      std::unique_ptr<BIO_METHOD, Deleter> made(
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "bytes of a session"));
      if (!made) return made;
      BIO_meth_set_read(made.get(), read);
      BIO_meth_set_write(made.get(), write);
      BIO_meth_set_ctrl(made.get(), control);
      BIO_meth_set_create(made.get(), [](BIO* bio) {
        BIO_set_init(bio, 1);
        return 1;
      });
      return made;
    }();
    return kMethod.get();
  }

  base::Bytes in_;
  std::size_t taken_ = 0;  ///< of in_, by OpenSSL
  base::Bytes kept_;
  base::Bytes* out_ = &kept_;
};

class TlsSession final : public Session {
 public:
  TlsSession(Role role, Ssl ssl, const std::optional<Secret>& secret)
      : role_(role), ssl_(std::move(ssl)), secret_(secret) {}

  /// Once, before all else. False: out of memory.
  [[nodiscard]] bool start() {
    BIO* const bio = pipe_.make_bio();
    if (bio == nullptr) return false;
    SSL_set_bio(ssl_.get(), bio, bio);
    return true;
  }

  base::Status receive(base::Bytes stream) override {
    if (!heard_ && !stream.empty()) {
      heard_ = true;
      const int first = std::to_integer<int>(stream.front());
      if (first != kTlsHandshakeRecord && first != kTlsAlertRecord) {
        return base::fail(base::ErrorCode::protocol,
                          "the other end does not speak TLS; [security] mode must be the same at "
                          "both ends");
      }
    }
    pipe_.receive(std::move(stream));
    return established_ ? base::Status{} : advance();
  }

  /// The next step of the handshake, as far as the received bytes allow.
  base::Status advance() {
    if (!SSL_is_init_finished(ssl_.get())) {
      ERR_clear_error();
      const int result = SSL_do_handshake(ssl_.get());
      if (result != 1) return waiting_or_error(result);
      if (auto status = identify(); !status) return status;
      if (role_ == Role::dialer) {
        if (auto status = put(proof_of(Role::dialer)); !status) return status;
      }
    }
    const std::size_t wanted = role_ == Role::listener ? sizeof(Proof) : sizeof(Verdict);
    while (said_.size() < wanted) {
      Verdict part;
      std::size_t size = 0;
      ERR_clear_error();
      const int result = SSL_read_ex(ssl_.get(), part.data(), wanted - said_.size(), &size);
      if (result != 1) return waiting_or_error(result);
      said_.insert(said_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(size));
    }
    return role_ == Role::listener ? judge() : take_verdict();
  }

  Role role() const noexcept override { return role_; }

  bool established() const noexcept override { return established_; }

  const base::PeerId& peer() const noexcept override { return peer_; }

  base::Result<std::size_t> read(std::span<std::byte> out) override {
    if (!established_) return 0;
    std::size_t size = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), out.data(), out.size(), &size);
    if (pipe_.kept() > kUnaskedMax) {
      return base::fail(base::ErrorCode::protocol, "the other end asks for new keys all the time");
    }
    if (result == 1) return size;
    if (auto status = waiting_or_error(result); !status) return base::fail(status.error());
    return 0;
  }

  base::Status write(base::ByteView plain, base::Bytes& stream) override {
    ASSERT(established_);
    pipe_.send_to(stream);
    auto status = put(plain);
    pipe_.keep();
    return status;
  }

  base::Bytes shared_bytes() const override {
    const auto exported = exported_as("EXPORTER-starling-shared");
    const base::ByteView bytes = std::as_bytes(std::span(exported));
    return {bytes.begin(), bytes.end()};
  }

  void output(base::Bytes& stream) override {
    pipe_.send_to(stream);
    pipe_.keep();
  }

 private:
  /// OpenSSL's verdict on a call that did not succeed: fine if it only waits for bytes.
  base::Status waiting_or_error(int result) {
    const int error = SSL_get_error(ssl_.get(), result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return {};
    if (error == SSL_ERROR_ZERO_RETURN) {
      return base::fail(base::ErrorCode::protocol, "the other end ended the TLS session");
    }
    return base::fail(base::ErrorCode::protocol, "TLS failed: {}", take_openssl_error());
  }

  base::Status put(base::ByteView plain) {
    std::size_t written = 0;
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written);
    if (result == 1) return {};
    return base::fail(base::ErrorCode::protocol, "TLS failed: {}", take_openssl_error());
  }

  /// Keying material of this session (RFC 8446, 7.5).
  std::array<unsigned char, 32> exported_as(std::string_view label) const {
    std::array<unsigned char, 32> exported{};
    ASSERT(SSL_export_keying_material(ssl_.get(), exported.data(), exported.size(), label.data(),
                                      label.size(), nullptr, 0, 0) == 1,
           "the handshake is over");
    return exported;
  }

  /// The proof of the secret by an end in this role.
  Proof proof_of(Role role) const {
    const auto exported = exported_as(role == Role::dialer ? "EXPORTER-starling-dialer"
                                                           : "EXPORTER-starling-listener");
    const base::ByteView key = secret_ ? secret_->bytes() : base::ByteView(kOpen);
    Proof proof{};
    ASSERT(
        HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), exported.data(),
             exported.size(), reinterpret_cast<unsigned char*>(proof.data()), nullptr) != nullptr,
        "out of memory");
    return proof;
  }

  /// Listener: decides whether the dialer may come in, and tells it.
  base::Status judge() {
    const Proof expected = proof_of(Role::dialer);
    const bool admitted = CRYPTO_memcmp(said_.data(), expected.data(), expected.size()) == 0;
    Verdict verdict{admitted ? kAdmitted : kTurnedAway};
    if (admitted) std::ranges::copy(proof_of(Role::listener), verdict.begin() + 1);
    if (auto status = put(verdict); !status) return status;
    if (!admitted) {
      return base::fail(base::ErrorCode::secret, "{}",
                        secret_ ? "the other end does not have this swarm's secret"
                                : "the other end has a secret, and this swarm has none");
    }
    established_ = true;
    return {};
  }

  base::Status take_verdict() {
    if (said_.front() != kAdmitted) {
      return base::fail(base::ErrorCode::secret, "{}",
                        secret_
                            ? "the other end does not have the secret of this peer's "
                              "security.secret (join, doctor: --secret FILE), but another one or "
                              "none"
                            : "the other end lets in only peers with its swarm's secret: its file "
                              "must be security.secret here, too (join, doctor: --secret "
                              "FILE)");
    }
    const Proof expected = proof_of(Role::listener);
    if (CRYPTO_memcmp(said_.data() + 1, expected.data(), expected.size()) != 0) {
      return base::fail(
          base::ErrorCode::secret,
          "the other end does not have this swarm's secret, though it lets this peer in");
    }
    established_ = true;
    return {};
  }

  base::Status identify() {
    const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
    if (certificate == nullptr) {
      return base::fail(base::ErrorCode::protocol, "the other end has shown no certificate");
    }
    auto id = peer_id_of(*certificate);
    if (!id) return base::fail(std::move(id.error()));
    peer_ = *id;
    return {};
  }

  const Role role_;
  Pipe pipe_;
  Ssl ssl_;  ///< works on the pipe
  const std::optional<Secret> secret_;
  base::Bytes said_;  ///< the other end's proof or verdict, after the handshake
  bool heard_ = false;
  bool established_ = false;
  base::PeerId peer_;
};

tl::unexpected<base::Error> failure(const char* what) {
  return base::fail(base::ErrorCode::internal, "OpenSSL cannot {}: {}", what, take_openssl_error());
}

}  // namespace

base::Result<TlsContext> TlsContext::create(const Identity& identity,
                                            const std::optional<Secret>& secret) {
  TlsContext made;
  made.secret_ = secret;
  made.context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = made.context_.get();
  const bool ok = context != nullptr &&
                  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                  SSL_CTX_set1_sigalgs_list(context, "ed25519") == 1 &&
                  SSL_CTX_use_certificate(context, identity.certificate()) == 1 &&
                  SSL_CTX_use_PrivateKey(context, identity.key()) == 1 &&
                  SSL_CTX_set_num_tickets(context, 0) == 1;
  if (!ok) return failure("set up TLS 1.3");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, accept_any_key);
  SSL_CTX_set_max_cert_list(context, kCertificatesMax);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return made;
}

base::Result<std::unique_ptr<Session>> TlsContext::session(Role role) const {
  Ssl ssl(SSL_new(context_.get()));
  if (!ssl) return failure("make a TLS session");
  if (role == Role::dialer) {
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  auto session = std::make_unique<TlsSession>(role, std::move(ssl), secret_);
  if (!session->start()) return failure("make a TLS session");
  if (auto status = session->advance(); !status) return base::fail(std::move(status.error()));
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace starling::io
