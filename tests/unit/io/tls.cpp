#include "io/tls.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
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

  static base::Bytes said(Session& session) {
    base::Bytes bytes;
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
  const base::Bytes plain(100, std::byte{7});
  base::Bytes stream;
  BOOST_REQUIRE(dialer->write(plain, stream));
  BOOST_REQUIRE(listener->receive(stream));
  base::Bytes read(200);
  BOOST_TEST(listener->read(read).value() == 100U);
  read.resize(100);
  BOOST_TEST((read == plain));
  BOOST_TEST((listener->peer() == identity->id()));
}

BOOST_AUTO_TEST_CASE(records_come_byte_by_byte_or_several_at_once_and_in_part) {
  base::Bytes plain(100'000);
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = std::byte(i * 31 >> 3U);
  base::Bytes stream{std::byte{1}};  // its old content stays in front
  for (std::size_t done = 0; done < plain.size(); done += 10'000) {
    BOOST_REQUIRE(dialer->write(base::ByteView(plain).subspan(done, 10'000), stream));
  }
  BOOST_TEST((stream.front() == std::byte{1}));
  stream.erase(stream.begin());
  for (const std::size_t step : {1UL, 7UL, 10'030UL, 33'000UL, stream.size()}) {
    BOOST_TEST_CONTEXT("in steps of " << step) {
      Sessions other;
      base::Bytes again;
      BOOST_REQUIRE(other.dialer->write(base::ByteView(plain).first(16'000), again));
      BOOST_REQUIRE(other.dialer->write(base::ByteView(plain).subspan(16'000, 16'000), again));
      base::Bytes read;
      for (std::size_t at = 0; at < again.size(); at += step) {
        const auto end = std::min(again.size(), at + step);
        BOOST_REQUIRE(other.listener->receive({again.begin() + static_cast<std::ptrdiff_t>(at),
                                               again.begin() + static_cast<std::ptrdiff_t>(end)}));
        base::Bytes part(3'000);
        for (std::size_t size = 1; size > 0;) {
          size = other.listener->read(part).value();
          read.insert(read.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(size));
        }
      }
      BOOST_TEST((read == base::Bytes(plain.begin(), plain.begin() + 32'000)));
    }
  }
  base::Bytes read(plain.size());
  BOOST_REQUIRE(listener->receive(stream));
  for (std::size_t at = 0; at < read.size();) {
    const auto size = listener->read(std::span(read).subspan(at)).value();
    BOOST_REQUIRE(size > 0U);
    at += size;
  }
  BOOST_TEST((read == plain));
}

BOOST_AUTO_TEST_CASE(what_comes_with_the_end_of_a_handshake_waits_to_be_read) {
  dialer = context->session(Role::dialer).value();
  listener = context->session(Role::listener).value();
  BOOST_REQUIRE(listener->receive(said(*dialer)));
  BOOST_REQUIRE(dialer->receive(said(*listener)));
  BOOST_REQUIRE(listener->receive(said(*dialer)));
  BOOST_REQUIRE(listener->established());
  base::Bytes stream = said(*listener);  // the verdict, and more in the same bytes
  BOOST_REQUIRE(listener->write(base::Bytes(100, std::byte{7}), stream));
  BOOST_REQUIRE(dialer->receive(std::exchange(stream, {})));
  BOOST_REQUIRE(dialer->established());
  base::Bytes read(200);
  BOOST_TEST(dialer->read(read).value() == 100U);
  BOOST_TEST((read.front() == std::byte{7}));
  BOOST_TEST(dialer->read(read).value() == 0U);
}

BOOST_AUTO_TEST_CASE(who_asks_for_new_keys_all_the_time_is_cut_off_before_answers_fill_the_memory) {
  base::Bytes read(100);
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
