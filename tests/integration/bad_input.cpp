// Errors of people and strangers: a clear message, the right exit code, peers that go on.
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.hpp"

namespace starling::integration {
namespace {

namespace fs = std::filesystem;

constexpr char kFashionMnist[] = "/usr/share/datasets/fashion-mnist";  // Debian's package

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

/// A TCP socket of the test on 127.0.0.1.
class Socket {
 public:
  Socket() : handle_(socket(AF_INET, SOCK_STREAM, 0)) { BOOST_REQUIRE(handle_ >= 0); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(handle_); }

  /// Takes a free port, without listening until listen().
  [[nodiscard]] std::uint16_t bind_any() {
    sockaddr_in at = loopback(0);
    BOOST_REQUIRE(bind(handle_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    socklen_t length = sizeof at;
    BOOST_REQUIRE(getsockname(handle_, reinterpret_cast<sockaddr*>(&at), &length) == 0);
    return ntohs(at.sin_port);
  }
  void listen() { BOOST_REQUIRE(::listen(handle_, 1) == 0); }
  void connect_to(std::uint16_t port) {
    const sockaddr_in at = loopback(port);
    BOOST_REQUIRE(connect(handle_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  }
  /// Takes one connection, reads the first bytes and writes the answer.
  void answer(const std::string& bytes) {
    const int taken = accept(handle_, nullptr, nullptr);
    BOOST_REQUIRE(taken >= 0);
    char request[4096];
    BOOST_TEST(recv(taken, request, sizeof request, 0) > 0);
    (void)send(taken, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(taken);
  }
  /// Sends as many bytes as the other end takes.
  void write(const std::string& bytes) {
    (void)send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }

  int handle_;
};

/// Runs `starling up` of one peer to its end.
Ended up(const testing::TemporaryFolder& folder, const std::string& run_file,
         const Arguments& more) {
  Arguments arguments{"up", run_file, "--name", "peer", "--dir", folder / "peer"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(folder, arguments);
}

BOOST_AUTO_TEST_CASE(a_misspelt_key_is_an_error_that_names_the_right_one) {
  const testing::TemporaryFolder folder;
  std::string text = text_of(mlp_run_file());
  const std::string key = "optimizer";
  BOOST_TEST_REQUIRE(has(text, key));
  text.replace(text.find(key), key.size(), "optimiser");
  std::ofstream(folder / "run.toml") << text;
  const Ended ended = up(folder, folder / "run.toml", {});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "optimiser"), ended.err);
  BOOST_TEST(has(ended.err, "did you mean"), ended.err);
  BOOST_TEST(has(ended.err, "optimizer"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_run_file_that_is_not_there_is_an_error_that_names_it) {
  const testing::TemporaryFolder folder;
  const Ended ended = up(folder, folder / "nothing.toml", {});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "nothing.toml"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_missing_data_set_is_an_error_that_says_how_to_get_it) {
  const testing::TemporaryFolder folder;
  const Ended ended = up(folder, mlp_run_file(), {"--set", "data.path=" + (folder / "nowhere")});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, folder / "nowhere"), ended.err);
  BOOST_TEST(has(ended.err, "dataset-fashion-mnist"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_truncated_data_file_is_an_error_that_names_it) {
  const testing::TemporaryFolder folder;
  const std::string images = "train-images-idx3-ubyte.gz";
  fs::create_directory(folder / "data");
  for (const fs::directory_entry& file : fs::directory_iterator(kFashionMnist)) {
    fs::copy_file(file.path(), folder / ("data/" + file.path().filename().string()));
  }
  const std::string cut = folder / ("data/" + images);
  fs::resize_file(cut, fs::file_size(cut) / 2);
  const Ended ended = up(folder, mlp_run_file(), {"--set", "data.path=" + (folder / "data")});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, images), ended.err);
  BOOST_TEST(has(ended.err, "truncated"), ended.err);
}

BOOST_AUTO_TEST_CASE(an_occupied_port_is_an_error_that_names_it) {
  const testing::TemporaryFolder folder;
  Socket occupant;
  const std::string address = "127.0.0.1:" + std::to_string(occupant.bind_any());
  occupant.listen();
  const Ended ended = up(folder, mlp_run_file(), {"--listen", address});
  BOOST_TEST(ended.code.value_or(-1) == 1);
  BOOST_TEST(has(ended.err, address), ended.err);
  BOOST_TEST(has(ended.err, "another program has this port"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_second_peer_in_a_folder_is_an_error_that_names_it) {
  const testing::TemporaryFolder folder;
  Peer first(folder, "peer", "", {"run.samples=1000000000"});
  BOOST_TEST_REQUIRE(eventually([&] { return first.status().has_value(); }), first.process().err());
  const Ended second = up(folder, mlp_run_file(), {"--listen", "127.0.0.1:0"});
  BOOST_TEST(second.code.value_or(-1) == 2);
  BOOST_TEST(has(second.err, first.dir() + ": a peer that is running has this folder"), second.err);
  BOOST_TEST(first.runs());
}

BOOST_AUTO_TEST_CASE(links_may_have_as_little_memory_as_a_run_file_can_say) {
  const testing::TemporaryFolder folder;
  const Ended ended = up(folder, mlp_run_file(),
                         {"--listen", "127.0.0.1:0", "--set", "limits.link_memory=1048576", "--set",
                          "run.samples=64"});
  BOOST_TEST(ended.code.value_or(-1) == 0, ended.err);
}

BOOST_AUTO_TEST_CASE(a_peer_that_reaches_nobody_says_so_and_trains_alone) {
  const testing::TemporaryFolder folder;
  Socket silent;
  const std::string nobody = "127.0.0.1:" + std::to_string(silent.bind_any());
  const Ended ended = up(folder, mlp_run_file(),
                         {"--listen", "127.0.0.1:0", "--join", nobody, "--set",
                          "swarm.wait_timeout=0.5", "--set", "run.samples=6400"});
  BOOST_TEST(ended.code.value_or(-1) == 0, ended.err);
  const auto summary = report::read_peer_summary(folder / "peer");
  BOOST_TEST_REQUIRE(summary.has_value());
  BOOST_TEST(summary->end == "done");
  BOOST_TEST(summary->steps == 100U);
  BOOST_TEST(has(ended.err, "starling: warning: dialing " + nobody + " failed"), ended.err);
  BOOST_TEST(has(ended.err, "training alone"), ended.err);
}

BOOST_AUTO_TEST_CASE(an_address_that_is_none_is_an_error_before_anything_is_made) {
  const testing::TemporaryFolder folder;
  for (const auto& [option, value] :
       {std::pair("--join", "somewhere"), std::pair("--join", "127.0.0.1:0"),
        std::pair("--join", ":7000"), std::pair("--join", "2001:db8::1:7000"),
        std::pair("--listen", "7000"), std::pair("--listen", "[::1:7000"),
        std::pair("--announce", "somewhere"), std::pair("--announce", "0.0.0.0:7000"),
        std::pair("--announce", "[fe80::1%lo]:7000")}) {
    const Ended ended = up(folder, mlp_run_file(), {option, value});
    BOOST_TEST(ended.code.value_or(-1) == 2);
    BOOST_TEST(has(ended.err, value), ended.err);
  }
  BOOST_TEST(!fs::exists(folder / "peer"));
}

BOOST_AUTO_TEST_CASE(a_pipe_is_not_replaced_by_a_file) {
  const testing::TemporaryFolder folder;
  folder.write("text.txt", "to be or not to be");
  const std::string pipe = folder / "pipe";
  BOOST_TEST_REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const Ended ended = run(
      folder, {"data", "train-vocabulary", folder / "text.txt", "--size", "257", "--out", pipe});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, pipe + ": is not a regular file"), ended.err);
  BOOST_TEST(fs::is_fifo(pipe));
}

BOOST_AUTO_TEST_CASE(a_report_that_finds_no_place_is_an_error_before_the_simulation) {
  const testing::TemporaryFolder folder;
  const Ended ended = run(folder, {"sim", "random", "--json", folder.path()});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, folder.path()), ended.err);
  BOOST_TEST(has(ended.err, "a folder"), ended.err);
  BOOST_TEST(ended.out.empty(), ended.out);
}

BOOST_AUTO_TEST_CASE(a_run_that_fails_has_its_summary_as_json_too) {
  const testing::TemporaryFolder folder;
  const Ended ended =
      up(folder, mlp_run_file(), {"--listen", "127.0.0.1:0", "--json", "--set", "train.lr=100"});
  BOOST_TEST(ended.code.value_or(-1) == 5, ended.err);
  const auto summary = report::peer_summary_from_json(ended.out);
  BOOST_TEST_REQUIRE(summary.has_value(), ended.out);
  BOOST_TEST(summary->end == "diverged");
  BOOST_TEST(ended.out.ends_with("}\n"));
  BOOST_TEST(!has(ended.err, "(text "), ended.err);
}

BOOST_AUTO_TEST_CASE(who_answers_a_query_says_nothing_to_the_terminal) {
  const testing::TemporaryFolder folder;
  const auto asked = [&](const std::string& command, const std::string& answer) {
    Socket server;
    const std::string address = "127.0.0.1:" + std::to_string(server.bind_any());
    server.listen();
    Process process({command, "--peer", address}, folder / "command");
    server.answer("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(answer.size()) +
                  "\r\n\r\n" + answer);
    const auto code = process.wait();
    return Ended{code, process.out(), process.err()};
  };
  const Ended members =
      asked("members", R"([{"name": "\u001b[2J\n\t", "id": "\u001b", "self": false,
      "state": "alive", "reach": "\u001b[1m", "relay": false, "samples": 1,
      "share": null, "learning_rate": null, "learning_rate_apart": null,
      "accuracy": null, "drift": 0, "links": 1, "addresses": ["\u001b[31m"]}])");
  BOOST_TEST(members.code.value_or(-1) == 0, members.err);
  BOOST_TEST(has(members.out, "?[2J??"), members.out);
  BOOST_TEST(!has(members.out, "\x1b"), members.out);
  for (const char* answer : {"42", "[1,2,3,4]", "{}", "null", "no"}) {
    for (const char* command : {"status", "members", "links"}) {
      const Ended wrong = asked(command, answer);
      BOOST_TEST(wrong.code.value_or(-1) == 1, command << ' ' << answer);
      BOOST_TEST(wrong.out.empty(), wrong.out);
      BOOST_TEST(has(wrong.err, "is not what a peer answers"), wrong.err);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_is_not_known_is_called_so) {
  const testing::TemporaryFolder folder;
  const Ended ended = run(folder, {"status", "--peer", "no.such.host.invalid:12"});
  BOOST_TEST(ended.code.value_or(-1) == 4);
  BOOST_TEST(has(ended.err, "this host name cannot be resolved"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_path_that_cannot_be_looked_at_is_told_with_the_reason) {
  const testing::TemporaryFolder folder;
  const Ended ended = run(folder, {"status", "--peer", std::string(5000, 'x')});
  BOOST_TEST(ended.code.value_or(-1) == 3, ended.err);
  BOOST_TEST(ended.err.starts_with("starling status: xxx"), ended.err);
  BOOST_TEST(has(ended.err, "File name too long"), ended.err);
}

BOOST_AUTO_TEST_CASE(random_bytes_at_its_ports_do_not_disturb_a_swarm) {
  Swarm swarm(2, {"run.samples=1000000000"});
  const auto exchanges = [&] {
    const auto status = swarm[0].status();
    return status ? status->exchanges : 0;
  };
  BOOST_TEST_REQUIRE(eventually([&] { return exchanges() > 0; }), swarm[0].process().err());
  const std::uint32_t seed = std::random_device{}();
  BOOST_TEST_CONTEXT("seed " << seed) {
    std::mt19937 random(seed);
    const std::uint16_t port = port_of(swarm[0].address());
    std::array<Socket, 8> idle;  // connected, and silent to the end
    for (Socket& socket : idle) socket.connect_to(port);
    for (const std::uint16_t target : {port, port_of(swarm[0].control())}) {
      for (int i = 0; i < 32; ++i) {
        Socket socket;
        socket.connect_to(target);
        std::string bytes(random() % 20'000, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random());
        socket.write(bytes);
      }
    }
    const std::uint64_t before = exchanges();
    BOOST_TEST(eventually([&] { return exchanges() > before + 20 || !swarm[0].runs(); }));
    BOOST_TEST(swarm[0].runs(), swarm[0].process().err());
    BOOST_TEST(swarm[0].state_of("peer-2") == "alive");
    swarm[0].process().signal(SIGINT);
    BOOST_TEST(swarm[0].process().wait().value_or(-1) == 0, swarm[0].process().err());
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_command_line_is_a_usage_error) {
  const testing::TemporaryFolder folder;
  const std::pair<Arguments, const char*> wrong[] = {
      {{"fly"}, "'fly' is not a command"},
      {{}, "subcommand"},
      {{"up"}, "run_file"},
      {{"swarm", mlp_run_file(), "-n", "0"}, "--peers"},
      {{"up", mlp_run_file(), "--lissen", "x"}, "--lissen"},
      {{"up", mlp_run_file(), "--dir", "/"}, "a folder of its own"},
      {{"bench", "compute", "--seconds", "nan"}, "--seconds"},
      {{"bench", "codec", "--only", "mlp"}, "--only"},
      {{"sample", "x", "--temperature", "nan"}, "--temperature"},
      {{"sample", "x", "--seed", "-1"}, "--seed"},
      {{"sample", "x", "--seed", "18446744073709551616"}, "--seed"},
      {{"sim", "random", "--seed", "-1", "--plan"}, "--seed"},
      {{"checkpoint", "--peer", folder / "nothing"}, "there is no such folder"},
      {{"status", "--peer", folder / "."}, "this is not a peer's folder"}};
  for (const auto& [arguments, word] : wrong) {
    const Ended ended = run(folder, arguments);
    BOOST_TEST(ended.code.value_or(-1) == 2, ended.err);
    BOOST_TEST(has(ended.err, word), ended.err);
  }
}

}  // namespace
}  // namespace starling::integration
