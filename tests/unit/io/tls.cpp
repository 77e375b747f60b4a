#include "io/tls.hpp"

#include <memory>
#include <optional>
#include <utility>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>
#include <openssl/ssl.h>

#include "io/identity.hpp"

using namespace starling;
using namespace starling::io;

namespace {

SSL* last_made = nullptr;

}  // namespace

// In place of OpenSSL's: a test breaks rules that a session of ours keeps.
extern "C" SSL* SSL_new(SSL_CTX* context) {
  using Function = SSL* (*)(SSL_CTX*);
  last_made = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "SSL_new"))(context);
  return last_made;
}

namespace {

/// Two sessions in one process, once each knows the other.
struct Sessions {
  Sessions() {
    identity.emplace(std::move(Identity::generate().value()));
    context.emplace(TlsContext::create(*identity, std::nullopt).value());
    dialer = context->session(Role::dialer).value();
    dialer_ssl = last_made;
    listener = context->session(Role::listener).value();
    for (int i = 0; i < 4; ++i) {
      BOOST_REQUIRE(listener->receive(said(*dialer)));
      BOOST_REQUIRE(dialer->receive(said(*listener)));
    }
    BOOST_REQUIRE((dialer->established() && listener->established()));
  }

  static base::Buffer said(Session& session) {
    base::Buffer bytes;
    session.output(bytes);
    return bytes;
  }

  std::optional<Identity> identity;
  std::optional<TlsContext> context;
  std::unique_ptr<Session> dialer;
  std::unique_ptr<Session> listener;
  SSL* dialer_ssl = nullptr;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(tls, Sessions)

BOOST_AUTO_TEST_CASE(what_is_written_is_read) {
  const base::Buffer plain(100, std::byte{7});
  base::Buffer stream;
  BOOST_REQUIRE(dialer->write(plain, stream));
  BOOST_REQUIRE(listener->receive(stream));
  base::Buffer read(200);
  BOOST_TEST(listener->read(read).value() == 100U);
  read.resize(100);
  BOOST_TEST((read == plain));
  BOOST_TEST((listener->peer() == identity->id()));
}

BOOST_AUTO_TEST_CASE(who_asks_for_new_keys_all_the_time_is_cut_off_before_answers_fill_the_memory) {
  base::Buffer read(100);
  std::optional<base::Error> error;
  int updates = 0;
  for (; updates < 10'000 && !error; ++updates) {
    BOOST_REQUIRE(SSL_key_update(dialer_ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
    BOOST_REQUIRE(SSL_do_handshake(dialer_ssl) == 1);
    BOOST_REQUIRE(listener->receive(said(*dialer)));
    const auto size = listener->read(read);
    if (!size) error = size.error();
  }
  BOOST_REQUIRE(error);
  BOOST_TEST((error->code == base::ErrorCode::protocol));
  BOOST_TEST(error->text.find("new keys") != std::string::npos);
  BOOST_TEST(updates > 10);  // one now and then is fine
  BOOST_TEST(said(*listener).size() < 8192U);
}

BOOST_AUTO_TEST_SUITE_END()
