#include "io/ucx/ucx_carrier.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <iterator>
#include <set>

#include <boost/test/unit_test.hpp>
#include <dirent.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include "io/raw_address.hpp"
#include "io/ucx/listener.hpp"
#include "io/ucx/ucx_engine.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::ucx;

namespace {

constexpr auto kPatience = std::chrono::seconds(20);

const base::Ip kLoopback = base::Ip::loopback();

/// A worker with at most one carrier, and nothing above it.
struct Side {
  Side() : worker(make_worker()), carriers(*worker) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    listener.reset();
    if (!carrier) return;
    carrier->abort();
    while (!carrier->closed()) worker->progress();
  }
  void listen() { listener = Listener::create(*worker, kLoopback, 0, busy).value(); }
  void turn() {
    while (worker->progress()) continue;
    if (!listener) return;
    for (const ucp_conn_request_h request : listener->take_requests()) {
      carrier = UcxCarrier::accept(carriers, request).value();
    }
  }

  std::unique_ptr<Worker> make_worker() {
    silence_ucx();
    return Worker::create("lo", false, 0, busy).value();
  }

  bool busy = false;
  std::unique_ptr<Worker> worker;
  UcxCarriers carriers;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<UcxCarrier> carrier;
};

/// Gives turns until `done`; false when that took longer than kPatience.
bool run_until(std::initializer_list<Side*> sides, const std::function<bool()>& done) {
  const auto late = std::chrono::steady_clock::now() + kPatience;
  while (!done() && std::chrono::steady_clock::now() < late) {
    for (Side* side : sides) side->turn();
  }
  return done();
}

/// This process's sockets that listen for TCP connections.
std::set<int> listening_sockets() {
  std::set<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    const int descriptor = std::atoi(entry->d_name);
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) {
      found.insert(descriptor);
    }
  }
  closedir(folder);
  return found;
}

/// An active message as no carrier would send it. Its buffers live as long as this.
struct RawMessage {
  std::array<std::uint32_t, 2> header{};
  base::Bytes data;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(ucx_carrier)

// Which end dials the other one's data port depends on their addresses, and NAT or a firewall may
// be in the way: here of both. A connect that waits would do so for 127 s.
BOOST_AUTO_TEST_CASE(a_port_that_drops_everything_does_not_stop_the_loop) {
  const std::set<int> before = listening_sockets();
  Side server;
  Side client;
  std::set<int> data_ports;
  std::ranges::set_difference(listening_sockets(), before,
                              std::inserter(data_ports, data_ports.end()));
  BOOST_REQUIRE(data_ports.size() == 2U);
  server.listen();
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog firewall{1, &drop};
  for (const int port : data_ports) {
    BOOST_REQUIRE(setsockopt(port, SOL_SOCKET, SO_ATTACH_FILTER, &firewall, sizeof firewall) == 0);
  }
  client.carrier = UcxCarrier::connect(client.carriers, kLoopback, server.listener->port()).value();
  client.carrier->send(base::Bytes(1));
  const auto begun = std::chrono::steady_clock::now();
  BOOST_REQUIRE(run_until({&server, &client}, [&] { return server.carrier != nullptr; }));
  int turns = 0;
  BOOST_TEST(run_until({&server, &client}, [&] { return ++turns >= 1000; }));
  BOOST_TEST(!server.carrier->readable());
  BOOST_TEST((std::chrono::steady_clock::now() - begun < kPatience));
}

BOOST_AUTO_TEST_CASE(nothing_follows_the_first_message_before_it_is_complete) {
  Side side;
  side.carrier = UcxCarrier::connect(side.carriers, kLoopback, 9).value();
  BOOST_TEST(side.carrier->writable() == kMessageMax);
  side.carrier->send(base::Bytes(1));
  BOOST_TEST(side.carrier->writable() == 0U);
  BOOST_TEST(!side.carrier->send_end());
}

// Each rule of the carrier, broken by a hostile sender that speaks to UCX directly.
struct Breach {
  const char* name;
  std::uint32_t first_number;  // of a run of messages with rising numbers
  std::uint32_t credit;
  std::size_t size;
  std::size_t count;
  Carrier::Failure expected;
};

BOOST_AUTO_TEST_CASE(a_sender_that_breaks_a_rule_is_found_out) {
  const std::array breaches{
      Breach{"ignores its credit", 1, 0, kMessageMax, 32, Carrier::Failure::overflow},
      Breach{"floods with tiny messages", 1, 0, 1, 5000, Carrier::Failure::overflow},
      Breach{"skips a number", 2, 0, 100, 1, Carrier::Failure::protocol},
      Breach{"repeats a number", 0, 0, 100, 1, Carrier::Failure::protocol},
      Breach{"sends too much at once", 1, 0, kMessageMax + 1, 1, Carrier::Failure::protocol},
      Breach{"takes credit for what was not sent", 1, 5, 100, 1, Carrier::Failure::protocol},
  };
  for (const Breach& breach : breaches) {
    BOOST_TEST_CONTEXT(breach.name) {
      Side server;
      server.listen();
      std::deque<RawMessage> messages;  // outlives the worker that sends them
      Side hostile;
      const RawAddress address({kLoopback, server.listener->port()});
      ucp_ep_params_t endpoint_params{};
      endpoint_params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                   UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
      endpoint_params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
      endpoint_params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
      endpoint_params.sockaddr.addrlen = address.size();
      endpoint_params.sockaddr.addr = address.get();
      ucp_ep_h endpoint = nullptr;
      BOOST_REQUIRE(ucp_ep_create(hostile.worker->raw(), &endpoint_params, &endpoint) == UCS_OK);
      std::size_t in_flight = 0;
      const auto post = [&](std::uint32_t number, std::uint32_t credit, std::size_t size) {
        RawMessage& message = messages.emplace_back();
        message.header = {number, credit};
        message.data.resize(size);
        ucp_request_param_t param{};
        param.op_attr_mask =
            UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
        param.user_data = &in_flight;
        param.cb.send = [](void* request, ucs_status_t, void* count) {
          --*static_cast<std::size_t*>(count);
          ucp_request_free(request);
        };
        const auto request = ucp_am_send_nbx(endpoint, 1, message.header.data(), kMessageHeaderSize,
                                             message.data.data(), size, &param);
        if (UCS_PTR_IS_PTR(request)) ++in_flight;
      };
      post(0, 0, 10);
      BOOST_REQUIRE(run_until({&server, &hostile},
                              [&] { return server.carrier && server.carrier->readable(); }));
      static_cast<void>(server.carrier->take());
      for (std::uint32_t i = 0; i < breach.count; ++i) {
        post(breach.first_number + i, breach.credit, breach.size);
      }
      BOOST_TEST(run_until({&server, &hostile},
                           [&] { return server.carrier->failure() != Carrier::Failure::none; }));
      BOOST_TEST((server.carrier->failure() == breach.expected));
      ucp_request_param_t force{};
      force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      force.flags = UCP_EP_CLOSE_FLAG_FORCE;
      const auto closing = ucp_ep_close_nbx(endpoint, &force);
      while (in_flight > 0 ||
             (UCS_PTR_IS_PTR(closing) && ucp_request_check_status(closing) == UCS_INPROGRESS)) {
        hostile.worker->progress();
      }
      if (UCS_PTR_IS_PTR(closing)) ucp_request_free(closing);
    }
  }
}

// A process that embeds a peer may have other users of the libraries.
BOOST_AUTO_TEST_CASE(what_others_do_with_the_same_libraries_is_left_alone) {
  BOOST_REQUIRE(Guard::install().has_value());
  const std::set<int> before = listening_sockets();
  Side other;
  std::set<int> ports;
  std::ranges::set_difference(listening_sockets(), before, std::inserter(ports, ports.end()));
  BOOST_REQUIRE(ports.size() == 1U);
  socklen_t instructions = 0;
  BOOST_TEST(getsockopt(*ports.begin(), SOL_SOCKET, SO_GET_FILTER, nullptr, &instructions) == 0);
  BOOST_TEST(instructions == 0U);

  const auto engine = UcxEngine::start({"lo", kLoopback, {}}).value();
  BOOST_REQUIRE(engine->guard().sockets().size() == 2U);
  for (const Guard::Socket& socket : engine->guard().sockets()) {
    instructions = 0;
    BOOST_TEST(getsockopt(socket.descriptor, SOL_SOCKET, SO_GET_FILTER, nullptr, &instructions) ==
               0);
    BOOST_TEST(instructions > 0U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
