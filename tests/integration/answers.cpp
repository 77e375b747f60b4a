#include "answers.hpp"

#include <thread>

#include <fmt/core.h>
#include <httplib.h>

namespace starling::integration {

struct Answers::Server {
  httplib::Server http;
  int port = 0;
  std::jthread thread;
};

Answers::Answers(std::initializer_list<std::pair<const char*, std::string>> answers)
    : server_(std::make_unique<Server>()) {
  for (const auto& [path, text] : answers) {
    server_->http.Get(path, [text = text](const httplib::Request&, httplib::Response& reply) {
      reply.set_content(text, "application/json");
    });
  }
  server_->port = server_->http.bind_to_any_port("127.0.0.1");
  server_->thread = std::jthread([this] { server_->http.listen_after_bind(); });
}

Answers::~Answers() { server_->http.stop(); }

std::string Answers::address() const { return fmt::format("127.0.0.1:{}", server_->port); }

}  // namespace starling::integration
