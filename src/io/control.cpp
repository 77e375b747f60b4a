#include "io/control.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <list>
#include <set>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/core.h>
#include <uv.h>

#include "base/assert.hpp"
#include "io/loop.hpp"
#include "io/tcp.hpp"

namespace starling::io {
namespace {

namespace http = boost::beast::http;

struct Connection;
using Connections = std::list<std::unique_ptr<Connection>>;

/// The headers of every answer, beside its length: a page may load only content from here, and may
/// not be framed by another page.
constexpr std::string_view kHeaders =
    "Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n";

/// One client. Its memory is freed when both handles have closed.
struct Connection {
  uv_tcp_t tcp{};
  uv_timer_t timer{};
  uv_write_t write{};
  http::request_parser<http::empty_body> parser;  ///< of the header
  int handles_open = 2;
  bool closing = false;
  std::array<char, Control::kRequestMax> input{};
  std::size_t received = 0;  ///< received bytes of the input
  std::size_t parsed = 0;    ///< of these, the parsed bytes of the header
  bool own = false;          ///< from this machine
  std::string output;
  const Control::Serve* serve = nullptr;
  Connections* all = nullptr;
  const std::set<std::string>* names = nullptr;  ///< of this machine

  Connection() {
    parser.header_limit(Control::kRequestMax + 1);  // the input is shorter
    parser.skip(true);                              // a body is counted, not read
  }
  void close();
  /// Parses the received bytes, and answers once they are a request or cannot become one.
  void parse();
  void reply(const ControlReply& reply);
  /// Replaces the earlier time-out.
  void close_after(std::uint64_t milliseconds);
  /// The reply to the received request.
  [[nodiscard]] ControlReply answer() const;
  /// The reason not to serve this client; empty: none.
  [[nodiscard]] std::string_view refusal() const;
};

/// Names of headers and of hosts ignore case.
std::string lower(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(), [](unsigned char c) { return std::tolower(c); });
  return made;
}

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

Connection& connection_of(void* data) { return *static_cast<Connection*>(data); }

void on_closed(uv_handle_t* handle) {
  Connection& connection = connection_of(handle->data);
  if (--connection.handles_open > 0) return;
  connection.all->remove_if([&](const auto& other) { return other.get() == &connection; });
}

void Connection::close() {
  if (std::exchange(closing, true)) return;
  uv_close(reinterpret_cast<uv_handle_t*>(&tcp), on_closed);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer), on_closed);
}

void Connection::close_after(std::uint64_t milliseconds) {
  uv_timer_start(
      &timer, [](uv_timer_t* over) { connection_of(over->data).close(); }, milliseconds, 0);
}

void Connection::reply(const ControlReply& answer) {
  uv_read_stop(reinterpret_cast<uv_stream_t*>(&tcp));
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(answer.code)));
  const bool head = parser.get().method() == http::verb::head;
  output = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}\r\n{}",
                       answer.code, view(reason), answer.type, answer.body.size(), kHeaders,
                       head ? std::string_view() : answer.body);
  uv_buf_t buffer = uv_buf_init(output.data(), static_cast<unsigned>(output.size()));
  write.data = this;
  close_after(Control::kReplyTimeoutMs);
  const auto on_written = [](uv_write_t* request, int) { connection_of(request->data).close(); };
  if (uv_write(&write, reinterpret_cast<uv_stream_t*>(&tcp), &buffer, 1, on_written) != 0) close();
}

bool is_from_this_machine(const uv_tcp_t& tcp, const Control::IsOwn& is_own) {
  const auto client = name_of(tcp, uv_tcp_getpeername);
  const auto reached = name_of(tcp, uv_tcp_getsockname);
  return client && reached && is_own(client->ip, reached->ip);
}

/// The host of a Host header, without the port and without brackets around IPv6.
std::string_view host_of(std::string_view header) {
  if (!header.starts_with('[')) return header.substr(0, header.find(':'));
  return header.substr(1, header.find(']') - 1);
}

// A browser sends the requests of other sites' pages, and names the page; and if a name of that
// page's site has been made to lead here, it sends that name.
std::string_view Connection::refusal() const {
  const auto& request = parser.get();
  std::string named = lower(host_of(view(request[http::field::host])));
  if (named.ends_with('.')) named.pop_back();  // a fully qualified name
  const bool named_here = named.empty() || names->contains(named) || numeric_address({named, 0});
  const bool post = request.method() == http::verb::post;
  const bool from_page = request.count(http::field::origin) > 0;
  if (from_page || (post && request.count("Sec-Fetch-Site") > 0)) {
    return "not for pages in a browser";
  }
  if (!named_here) return "only under this machine's address or host name";
  if (post && !own) return "only for programs on this machine";
  return {};
}

/// Names that lead here, regardless of name servers.
std::set<std::string> names_of_this_machine(const std::string& listen_host) {
  std::set<std::string> names{"localhost", lower(listen_host)};
  std::array<char, UV_MAXHOSTNAMESIZE> name{};
  std::size_t size = name.size();
  if (uv_os_gethostname(name.data(), &size) == 0) {
    const std::string own = lower(name.data());
    names.insert(own);
    names.insert(own.substr(0, own.find('.')));
  }
  return names;
}

ControlReply Connection::answer() const {
  const auto& request = parser.get();
  // It is unclear which one is meant.
  if (request.count(http::field::host) > 1) return error_reply(400, "it names several hosts");
  if (const auto refused = refusal(); !refused.empty()) return error_reply(403, refused);
  const bool post = request.method() == http::verb::post;
  if (!post && request.method() != http::verb::get && request.method() != http::verb::head) {
    return error_reply(405, "only GET, HEAD and POST");
  }
  const std::string_view target = view(request.target());
  return (*serve)({post, std::string(target.substr(0, target.find('?')))});
}

// One request per connection: once it is answered, nothing more is read.
void Connection::parse() {
  if (!parser.is_done()) {
    boost::beast::error_code error;
    parsed += parser.put(boost::asio::buffer(input.data() + parsed, received - parsed), error);
    const bool goes_on = error == http::error::need_more;
    if (goes_on && received < input.size()) return;
    if (goes_on) return reply(error_reply(431, "its header is too long"));
    if (error) return reply(error_reply(400, "not a request this port understands"));
  }
  if (parser.get().count(http::field::transfer_encoding) > 0) {
    return reply(error_reply(411, "a body must have a length"));
  }
  const std::uint64_t body = parser.content_length().value_or(0);
  if (body > input.size() - parsed) return reply(error_reply(413, "its body is too long"));
  if (received - parsed >= body) reply(answer());
}

void on_read(uv_stream_t* stream, ssize_t count, const uv_buf_t*) {
  Connection& connection = connection_of(stream->data);
  if (count == 0) return;
  if (count < 0) return connection.close();
  connection.received += static_cast<std::size_t>(count);
  connection.parse();
}

void on_alloc(uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
  Connection& connection = connection_of(handle->data);
  *buffer = uv_buf_init(connection.input.data() + connection.received,
                        static_cast<unsigned>(connection.input.size() - connection.received));
}

}  // namespace

ControlReply error_reply(int code, std::string_view text) {
  return {code, fmt::format("{{\"error\":\"{}\"}}\n", text)};
}

struct Control::Impl {
  uv_tcp_t listener{};
  bool listener_open = false;
  std::set<std::string> names;
  Serve serve;
  IsOwn is_own;
  Connections connections;

  void accept();
};

void Control::Impl::accept() {
  auto connection = std::make_unique<Connection>();
  Connection& added = *connection;
  added.serve = &serve;
  added.all = &connections;
  added.names = &names;
  uv_tcp_init(listener.loop, &added.tcp);
  uv_timer_init(listener.loop, &added.timer);
  added.tcp.data = added.timer.data = &added;
  connections.push_back(std::move(connection));
  auto* stream = reinterpret_cast<uv_stream_t*>(&added.tcp);
  const bool taken = uv_accept(reinterpret_cast<uv_stream_t*>(&listener), stream) == 0;
  // Some are reserved for this machine: strangers must not keep its owner from `starling leave`.
  added.own = taken && is_from_this_machine(added.tcp, is_own);
  const std::size_t room = added.own ? kConnectionsMax : kConnectionsMax - kOwnConnections;
  if (!taken || connections.size() > room) return added.close();
  added.close_after(kRequestTimeoutMs);
  uv_read_start(stream, on_alloc, on_read);
}

base::Result<std::unique_ptr<Control>> Control::create(Loop& loop, std::string_view address,
                                                       Serve serve, IsOwn is_own) {
  const auto wanted = parse_address(address);
  if (!wanted) return base::fail(wanted.error());
  const auto at = resolve_now(*wanted);
  if (!at) return base::fail(at.error());
  std::unique_ptr<Control> control(new Control);
  control->impl_ = std::make_unique<Impl>();
  Impl& impl = *control->impl_;
  impl.serve = std::move(serve);
  impl.is_own = std::move(is_own);
  impl.names = names_of_this_machine(wanted->host);
  uv_tcp_init(loop.raw(), &impl.listener);
  impl.listener.data = &impl;
  impl.listener_open = true;
  auto* stream = reinterpret_cast<uv_stream_t*>(&impl.listener);
  int failed = bind_to(impl.listener, *at);
  if (failed == 0) {
    failed = uv_listen(stream, static_cast<int>(kConnectionsMax), [](uv_stream_t* server, int bad) {
      if (bad == 0) static_cast<Impl*>(server->data)->accept();
    });
  }
  if (failed != 0) {
    control->close();
    uv_run(loop.raw(), UV_RUN_NOWAIT);
    return base::fail(base::ErrorCode::network, "cannot serve HTTP at {}: {}", address,
                      uv_strerror(failed));
  }
  base::IpPort bound = name_of(impl.listener, uv_tcp_getsockname).value_or(*at);
  // For programs on this machine. A socket for both families answers at IPv4's address, which more
  // programs know.
  if (bound.ip.is_any()) bound.ip = base::Ip::loopback();
  control->address_ = to_string(bound);
  return control;
}

Control::~Control() {
  ASSERT(!impl_->listener_open && impl_->connections.empty(), "closed before it is destroyed");
}

void Control::close() {
  auto* handle = reinterpret_cast<uv_handle_t*>(&impl_->listener);
  if (uv_is_closing(handle) == 0) {
    end_for_all(impl_->listener);
    uv_close(handle,
             [](uv_handle_t* closed) { static_cast<Impl*>(closed->data)->listener_open = false; });
  }
  for (const auto& connection : impl_->connections) connection->close();
}

}  // namespace starling::io
