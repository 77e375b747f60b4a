#include "io/tcp.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "io/raw_address.hpp"

namespace starling::io {
namespace {

// Bytes of one read; they grow while more comes than fits.
constexpr std::size_t kReadMin = 4UL * 1024;
constexpr std::size_t kReadMax = 64UL * 1024;
// The system takes at most this much ahead of the line: bytes that wait in a peer can still be
// dropped or go another way.
constexpr int kSystemUnsentMax = 128 * 1024;

tl::unexpected<base::Error> fail_dial(int status) {
  const bool no_route = status == UV_ENETUNREACH || status == UV_EADDRNOTAVAIL;
  return base::fail(no_route ? base::ErrorCode::unreachable : base::ErrorCode::network, "{}",
                    uv_strerror(status));
}

}  // namespace

std::optional<base::IpPort> name_of(const uv_tcp_t& socket, AskName ask) noexcept {
  return ip_port_from<int>([&](sockaddr* name, int* size) { return ask(&socket, name, size); });
}

void end_for_all(const uv_tcp_t& socket) noexcept {
  uv_os_fd_t fd = -1;
  const auto* handle = reinterpret_cast<const uv_handle_t*>(&socket);
  if (uv_fileno(handle, &fd) == 0) ::shutdown(fd, SHUT_RDWR);
}

int bind_to(uv_tcp_t& socket, const base::IpPort& at) noexcept {
  // libuv clears IPV6_V6ONLY, regardless of the system's default.
  const int status = uv_tcp_bind(&socket, RawAddress(at).get(), 0);
  if (status != UV_EAFNOSUPPORT || at.ip.is_v4() || !at.ip.is_any()) return status;
  return uv_tcp_bind(&socket, RawAddress({{}, at.port}).get(), 0);
}

/// libuv uses a handle's memory until its close callback, which may come after the owner is gone.
struct TcpStream::Socket {
  uv_tcp_t handle{};
  uv_connect_t connect{};
  uv_shutdown_t shutdown{};
  bool connected = false;
  bool reading = false;
  bool ending = false;
  bool ended = false;
  std::string error;
  base::Bytes inbox;
  std::size_t received = 0;  ///< of the inbox; the rest is room to read into
  std::size_t read_size = kReadMin;

  struct Write {
    uv_write_t request{};
    base::Bytes bytes;
  };

  [[nodiscard]] uv_stream_t* stream() { return reinterpret_cast<uv_stream_t*>(&handle); }

  static Socket& of(void* data) { return *static_cast<Socket*>(data); }

  static Socket* make(uv_loop_t* loop) {
    auto socket = std::make_unique<Socket>();
    ASSERT(uv_tcp_init(loop, &socket->handle) == 0, "libuv refused to make a handle");
    socket->handle.data = socket->connect.data = socket->shutdown.data = socket.get();
    return socket.release();
  }

  void close() {
    end_for_all(handle);
    uv_close(reinterpret_cast<uv_handle_t*>(&handle),
             [](uv_handle_t* closed) { delete &of(closed->data); });
  }

  /// Starts to connect. Returns libuv's status.
  int dial(const base::IpPort& to);

  void fail(int status) {
    ended = true;
    if (error.empty() && status != UV_EOF) error = uv_strerror(status);
  }

  void start() {
    connected = true;
    // The other end waits for everything that is sent.
    uv_tcp_nodelay(&handle, 1);
    uv_os_fd_t fd = -1;
    if (uv_fileno(reinterpret_cast<const uv_handle_t*>(&handle), &fd) == 0) {
      ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kSystemUnsentMax, sizeof kSystemUnsentMax);
    }
    read();
  }

  void read() {
    if (reading || ended) return;
    const auto on_alloc = [](uv_handle_t* stream, std::size_t, uv_buf_t* buffer) {
      Socket& socket = of(stream->data);
      // If much comes, the inbox's whole room at once.
      if (socket.read_size == kReadMax) socket.inbox.reserve(kInboxMax);
      socket.inbox.resize(socket.received + socket.read_size);
      *buffer = uv_buf_init(reinterpret_cast<char*>(socket.inbox.data() + socket.received),
                            static_cast<unsigned>(socket.read_size));
    };
    const auto on_read = [](uv_stream_t* stream, ssize_t count, const uv_buf_t*) {
      of(stream->data).on_read(count);
    };
    const int status = uv_read_start(stream(), on_alloc, on_read);
    if (status != 0) return fail(status);
    reading = true;
  }

  void on_read(ssize_t count) {
    if (count < 0) {
      fail(static_cast<int>(count));
      uv_read_stop(stream());
      return;
    }
    const auto size = static_cast<std::size_t>(count);
    received += size;
    read_size = size == read_size ? std::min(2 * read_size, kReadMax)
                                  : std::max(std::bit_ceil(size), kReadMin);
    if (received + kReadMax <= kInboxMax) return;
    uv_read_stop(stream());
    reading = false;
  }

  base::Bytes take() {
    inbox.resize(std::exchange(received, 0));
    return std::exchange(inbox, {});
  }
};

base::Result<std::unique_ptr<TcpStream>> TcpStream::connect(Loop& loop, const base::IpPort& to) {
  std::unique_ptr<TcpStream> made(new TcpStream(Socket::make(loop.raw())));
  if (const int status = made->socket_->dial(to); status != 0) return fail_dial(status);
  return made;
}

// The port at all addresses is harder to get: old connections to other places hold it.
base::Result<std::unique_ptr<TcpStream>> TcpStream::connect_from(Loop& loop,
                                                                 const base::IpPort& own,
                                                                 const base::IpPort& to) {
  std::unique_ptr<TcpStream> made(new TcpStream(Socket::make(loop.raw())));
  const base::Ip any = to.ip.is_v4() ? base::Ip() : base::Ip::any_v6();
  const RawAddress from({own.ip.is_v4() == to.ip.is_v4() ? own.ip : any, own.port});
  const int fd = ::socket(from.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fail_dial(-errno);
  const int on = 1;
  int status = 0;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0 ||
      ::bind(fd, from.get(), from.size()) != 0) {
    status = -errno;
  } else {
    status = uv_tcp_open(&made->socket_->handle, fd);
  }
  if (status != 0) {
    ::close(fd);
    return fail_dial(status);
  }
  status = made->socket_->dial(to);
  if (status != 0) return fail_dial(status);
  return made;
}

int TcpStream::Socket::dial(const base::IpPort& to) {
  const auto on_connect = [](uv_connect_t* request, int status) {
    Socket& connecting = Socket::of(request->data);
    if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&connecting.handle)) != 0) return;
    if (status != 0) return connecting.fail(status);
    connecting.start();
  };
  return uv_tcp_connect(&connect, &handle, RawAddress(to).get(), on_connect);
}

std::unique_ptr<TcpStream> TcpStream::accept(uv_stream_t* listening) {
  std::unique_ptr<TcpStream> made(new TcpStream(Socket::make(listening->loop)));
  if (uv_accept(listening, made->socket_->stream()) != 0) return nullptr;
  made->socket_->start();
  return made;
}

TcpStream::~TcpStream() { socket_->close(); }

bool TcpStream::connected() const noexcept { return socket_->connected; }

void TcpStream::send(base::Bytes bytes) {
  ASSERT(socket_->connected && !socket_->ending);
  if (bytes.empty() || !socket_->error.empty()) return;
  uv_buf_t whole =
      uv_buf_init(reinterpret_cast<char*>(bytes.data()), static_cast<unsigned>(bytes.size()));
  // Usually the system takes all of it at once. An error shows again below.
  const int taken = unsent() == 0 ? uv_try_write(socket_->stream(), &whole, 1) : 0;
  if (taken == static_cast<int>(bytes.size())) return;
  if (taken > 0) bytes.erase(bytes.begin(), bytes.begin() + taken);
  auto write = std::make_unique<Socket::Write>();
  write->bytes = std::move(bytes);
  write->request.data = write.get();
  uv_buf_t buffer = uv_buf_init(reinterpret_cast<char*>(write->bytes.data()),
                                static_cast<unsigned>(write->bytes.size()));
  const auto on_written = [](uv_write_t* request, int status) {
    const std::unique_ptr<Socket::Write> done(static_cast<Socket::Write*>(request->data));
    if (status != 0) Socket::of(request->handle->data).fail(status);
  };
  const int status = uv_write(&write->request, socket_->stream(), &buffer, 1, on_written);
  if (status != 0) return socket_->fail(status);
  static_cast<void>(write.release());  // the callback owns it
}

std::size_t TcpStream::unsent() const noexcept {
  return uv_stream_get_write_queue_size(socket_->stream());
}

void TcpStream::end() {
  if (!socket_->connected || std::exchange(socket_->ending, true)) return;
  const int status = uv_shutdown(&socket_->shutdown, socket_->stream(), [](uv_shutdown_t*, int) {});
  if (status != 0) socket_->fail(status);
}

base::Bytes TcpStream::take() {
  base::Bytes taken = socket_->take();
  if (socket_->connected) socket_->read();
  return taken;
}

bool TcpStream::readable() const noexcept { return socket_->received > 0; }

void TcpStream::put_back(base::Bytes bytes) {
  socket_->inbox.resize(socket_->received);
  socket_->inbox.insert(socket_->inbox.begin(), bytes.begin(), bytes.end());
  socket_->received = socket_->inbox.size();
}

bool TcpStream::ended() const noexcept { return socket_->ended; }

const std::string& TcpStream::error() const noexcept { return socket_->error; }

base::IpPort TcpStream::remote_address() const {
  return name_of(socket_->handle, uv_tcp_getpeername).value_or(base::IpPort{});
}

base::IpPort TcpStream::local_address() const {
  return name_of(socket_->handle, uv_tcp_getsockname).value_or(base::IpPort{});
}

// --- listening ---

TcpListener::TcpListener(Loop& loop)
    : handle_([this] { on_connection(); },
              [&](uv_tcp_t* handle) { return uv_tcp_init(loop.raw(), handle); }) {}

TcpListener::~TcpListener() { end_for_all(*handle_.raw()); }

base::Result<std::unique_ptr<TcpListener>> TcpListener::create(Loop& loop, const base::IpPort& at) {
  std::unique_ptr<TcpListener> made(new TcpListener(loop));
  uv_tcp_t* handle = made->handle_.raw();
  auto* stream = reinterpret_cast<uv_stream_t*>(handle);
  int status = bind_to(*handle, at);
  if (status == 0) {
    // A connection that failed before it was accepted needs no action: accept() sees none.
    status = uv_listen(stream, static_cast<int>(kWaitingMax), [](uv_stream_t* listening, int) {
      Handle<uv_tcp_t>::call(reinterpret_cast<uv_tcp_t*>(listening));
    });
  }
  if (status != 0) {
    const char* advice = status == UV_EADDRINUSE
                             ? "another program has this port; choose another one, or port 0"
                             : "is it an address of this machine?";
    return base::fail(base::ErrorCode::network, "cannot listen on {}: {}; {}", to_string(at),
                      uv_strerror(status), advice);
  }
  // From now on, not before: another program still finds the port taken, but this one may dial from
  // it (connect_from).
  uv_os_fd_t fd = -1;
  const int on = 1;
  if (uv_fileno(reinterpret_cast<const uv_handle_t*>(handle), &fd) == 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  }
  made->bound_ = name_of(*handle, uv_tcp_getsockname).value_or(at);
  return made;
}

void TcpListener::on_connection() {
  auto stream = TcpStream::accept(reinterpret_cast<uv_stream_t*>(handle_.raw()));
  if (stream && waiting_.size() < kWaitingMax) waiting_.push_back(std::move(stream));
}

}  // namespace starling::io
