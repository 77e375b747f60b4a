#include "control.hpp"

#include <array>
#include <list>
#include <utility>

#include <uv.h>

#include "base/assert.hpp"
#include "requests.hpp"

namespace starling::net_switch {
namespace {

struct Client;

/// Data that clients share. Outlives them: the last one's close callback comes before its end.
struct Shared {
  Control::Answer answer;
  std::list<std::unique_ptr<Client>> clients;
};

/// One connection. It is read only while no reply is being sent, so neither side can pile up.
struct Client {
  uv_pipe_t pipe{};
  uv_write_t write{};
  std::array<char, 4096> chunk{};
  std::string input;
  std::string output;
  Shared* shared = nullptr;

  void close();
  void read();
  /// Answers the first whole line, if there is one and no reply is being sent.
  void serve();
};

Client& client_of(void* data) { return *static_cast<Client*>(data); }

void Client::close() {
  auto* handle = reinterpret_cast<uv_handle_t*>(&pipe);
  if (uv_is_closing(handle) != 0) return;
  uv_close(handle, [](uv_handle_t* closed) {
    Client& client = client_of(closed->data);
    client.shared->clients.remove_if([&](const auto& other) { return other.get() == &client; });
  });
}

void Client::read() {
  uv_read_start(
      reinterpret_cast<uv_stream_t*>(&pipe),
      [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
        auto& into = client_of(handle->data).chunk;
        *buffer = uv_buf_init(into.data(), static_cast<unsigned>(into.size()));
      },
      [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
        Client& client = client_of(stream->data);
        if (count < 0) return client.close();
        client.input.append(buffer->base, static_cast<std::size_t>(count));
        client.serve();
      });
}

void Client::serve() {
  const std::size_t end = input.find('\n');
  if (end == std::string::npos) {
    if (input.size() > kRequestMax) close();
    return;
  }
  uv_read_stop(reinterpret_cast<uv_stream_t*>(&pipe));
  output = shared->answer(std::string_view(input).substr(0, end)) + "\n";
  input.erase(0, end + 1);
  uv_buf_t buffer = uv_buf_init(output.data(), static_cast<unsigned>(output.size()));
  const auto on_written = [](uv_write_t* request, int failed) {
    Client& client = client_of(request->data);
    if (uv_is_closing(reinterpret_cast<uv_handle_t*>(&client.pipe)) != 0) return;
    if (failed != 0) return client.close();
    client.read();
    client.serve();
  };
  write.data = this;
  if (uv_write(&write, reinterpret_cast<uv_stream_t*>(&pipe), &buffer, 1, on_written) != 0) close();
}

}  // namespace

struct Control::Impl {
  uv_pipe_t listener{};
  bool open = false;
  Shared shared;

  void accept() {
    auto made = std::make_unique<Client>();
    Client& client = *made;
    client.shared = &shared;
    client.pipe.data = &client;
    uv_pipe_init(listener.loop, &client.pipe, 0);
    shared.clients.push_back(std::move(made));
    auto* stream = reinterpret_cast<uv_stream_t*>(&client.pipe);
    const bool taken = uv_accept(reinterpret_cast<uv_stream_t*>(&listener), stream) == 0;
    if (!taken || shared.clients.size() > kClientsMax) return client.close();
    client.read();
  }
};

Control::Control(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

base::Result<std::unique_ptr<Control>> Control::create(uv_loop_s* loop, const std::string& path,
                                                       Answer answer) {
  std::unique_ptr<Control> control(new Control(std::make_unique<Impl>()));
  Impl& impl = *control->impl_;
  impl.shared.answer = std::move(answer);
  impl.listener.data = &impl;
  uv_pipe_init(loop, &impl.listener, 0);
  impl.open = true;
  int failed = uv_pipe_bind(&impl.listener, path.c_str());
  if (failed == 0) {
    failed = uv_listen(reinterpret_cast<uv_stream_t*>(&impl.listener), kClientsMax,
                       [](uv_stream_t* listener, int bad) {
                         if (bad == 0) static_cast<Impl*>(listener->data)->accept();
                       });
  }
  if (failed != 0) {
    control->close();
    uv_run(loop, UV_RUN_NOWAIT);
    return base::fail(base::ErrorCode::network, "cannot listen at {}: {}", path,
                      uv_strerror(failed));
  }
  return control;
}

Control::~Control() {
  ASSERT(!impl_->open && impl_->shared.clients.empty(), "closed before it is destroyed");
}

void Control::close() {
  auto* handle = reinterpret_cast<uv_handle_t*>(&impl_->listener);
  if (uv_is_closing(handle) == 0) {
    uv_close(handle, [](uv_handle_t* closed) { static_cast<Impl*>(closed->data)->open = false; });
  }
  for (const auto& client : impl_->shared.clients) client->close();
}

}  // namespace starling::net_switch
