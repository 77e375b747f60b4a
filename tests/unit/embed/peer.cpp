#include "starling/peer.hpp"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/temporary_folder.hpp"

using starling::Error;
using starling::ErrorKind;
using starling::Peer;
using starling::PeerOptions;

namespace {

struct PeerFixture {
  PeerFixture() {
    std::ofstream(run_file) << "[run]\nsamples = 2000\n"
                               "[train]\nlr = 0.1\nbatch = 4\n"
                               "[exchange]\nevery = 2\ndensity = 0.5\n";
  }
  [[nodiscard]] PeerOptions options(const std::string& name) const {
    PeerOptions made;
    made.run_file = run_file;
    made.parameters = {0, 0, 0, 0};
    made.samples = 100;
    made.listen = "127.0.0.1:0";
    made.dir = folder / name;
    made.name = name;
    made.quiet = true;
    return made;
  }
  /// The constructor's exception.
  [[nodiscard]] static std::string refused(PeerOptions options, ErrorKind kind) {
    try {
      Peer peer(std::move(options));
    } catch (const Error& error) {
      BOOST_TEST((error.kind() == kind), error.what());
      return error.what();
    }
    return "";
  }

  starling::testing::TemporaryFolder folder;
  const std::string run_file = folder / "run.toml";
};

/// Steps towards `goal` until the run ends.
void train(Peer& peer, float goal) {
  while (const auto step = peer.next_step()) {
    float loss = 0;
    for (float& parameter : peer.parameters()) {
      loss += (parameter - goal) * (parameter - goal) / 2;
      parameter -= step->learning_rate * (parameter - goal);
    }
    peer.step_done(loss);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(embedded_peer, PeerFixture)

BOOST_AUTO_TEST_CASE(one_alone_trains_to_the_end_of_the_run) {
  Peer peer(options("alone"));
  BOOST_TEST(peer.address().starts_with("127.0.0.1:"));
  BOOST_TEST(peer.dir() == folder / "alone");
  BOOST_TEST(!peer.resumed());
  const float* const place = peer.parameters().data();
  train(peer, 3.0F);
  BOOST_TEST(peer.parameters().data() == place);
  const starling::Summary summary = peer.summary();
  BOOST_TEST(!summary.left);
  BOOST_TEST(summary.steps == 500U);
  BOOST_TEST(summary.samples == 2000U);
  std::vector<float> result(4);
  peer.read(result);
  for (const float value : result) BOOST_TEST(std::abs(value - 3.0F) < 0.01F);
  BOOST_TEST(!peer.next_step().has_value());  // as often as one likes
}

BOOST_AUTO_TEST_CASE(peers_that_want_different_things_meet_in_the_middle) {
  PeerOptions first = options("first");
  first.set = {"swarm.wait_for=1", "run.samples=20000", "limits.steps_per_second=2000"};
  PeerOptions second = options("second");
  second.set = first.set;
  second.buffers = first.buffers = {{{"count", {1}}, {1.0F}, true}};
  Peer one(first);
  second.join = {one.address()};
  Peer two(second);
  std::vector<float> results[2] = {std::vector<float>(4), std::vector<float>(4)};
  std::thread other([&] {
    train(two, 3.0F);
    two.read(results[1]);
  });
  train(one, 1.0F);
  one.read(results[0]);
  other.join();
  BOOST_TEST(one.summary().exchanges > 0U);
  BOOST_TEST(one.summary().bytes_sent > 0U);
  for (std::size_t i = 0; i < 4; ++i) {
    BOOST_TEST(std::abs(results[0][i] - results[1][i]) < 0.1F);
    BOOST_TEST(results[0][i] > 1.2F);
    BOOST_TEST(results[0][i] < 2.8F);
  }
}

BOOST_AUTO_TEST_CASE(who_leaves_saves_and_goes_on_from_there) {
  PeerOptions away = options("away");
  away.set = {"run.samples=1000000"};  // on a busy machine many steps pass until it has left
  std::uint64_t steps = 0;
  {
    Peer peer(away);
    while (const auto step = peer.next_step()) {
      peer.parameters()[2] = 5.0F;
      if (step->number == 10) peer.leave();
      peer.step_done(1);
    }
    BOOST_TEST(peer.summary().left);
    steps = peer.summary().steps;
    BOOST_TEST(steps >= 10U);
    BOOST_TEST(steps < 250'000U);
  }
  Peer again(away);
  BOOST_TEST(again.resumed());
  BOOST_TEST(again.parameters()[2] == 5.0F);
  const auto step = again.next_step();
  BOOST_REQUIRE(step.has_value());
  BOOST_TEST(step->number == steps + 1);
  again.step_done(1);
}

BOOST_AUTO_TEST_CASE(a_child_that_destroys_its_copy_leaves_the_peer_as_it_is) {
  auto peer = std::make_unique<Peer>(options("parent"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // ends it where it waits for a thread that it does not have
    peer.reset();
    ::_exit(0);
  }
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
  BOOST_TEST(refused(options("parent"), ErrorKind::usage).find("a peer that is running") !=
             std::string::npos);
  train(*peer, 3.0F);
  BOOST_TEST(peer->summary().steps == 500U);
}

BOOST_AUTO_TEST_CASE(without_descriptors_there_is_an_error_and_no_end_of_the_program) {
  const PeerOptions few = options("few");
  const rlim_t open =
      static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
  for (rlim_t left = 0; left < 80; left += 4) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      ::alarm(60);
      const rlimit limit{.rlim_cur = open + left, .rlim_max = open + left};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      try {
        (void)Peer(few);
      } catch (const Error&) {
        ::_exit(1);
      } catch (...) {
        ::_exit(2);
      }
      ::_exit(0);
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) < 2), left << " left: status " << status);
    if (left == 0) BOOST_TEST(WEXITSTATUS(status) == 1);
  }
}

BOOST_AUTO_TEST_CASE(what_the_program_throws_comes_through_and_the_peer_can_be_let_go) {
  PeerOptions made = options("throws");
  made.evaluate = [](auto...) -> starling::Evaluation { throw std::runtime_error("no test set"); };
  Peer peer(made);
  BOOST_CHECK_EXCEPTION(train(peer, 1.0F), std::runtime_error, [](const auto& error) {
    return error.what() == std::string("no test set");
  });
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_thrown_as_such) {
  Peer peer(options("diverges"));
  BOOST_REQUIRE(peer.next_step().has_value());
  peer.step_done(std::numeric_limits<float>::infinity());
  BOOST_CHECK_EXCEPTION((void)peer.next_step(), Error,
                        [](const Error& error) { return error.kind() == ErrorKind::diverged; });
}

BOOST_AUTO_TEST_CASE(an_evaluation_that_is_not_finite_is_thrown_as_such) {
  PeerOptions made = options("evaluates");
  made.evaluate = [](auto...) { return starling::Evaluation{.accuracy = 0.5, .loss = NAN}; };
  Peer peer(made);
  BOOST_CHECK_EXCEPTION(train(peer, 1.0F), Error,
                        [](const Error& error) { return error.kind() == ErrorKind::diverged; });
}

BOOST_AUTO_TEST_CASE(parameters_that_are_not_finite_at_the_end_are_thrown_as_such) {
  Peer peer(options("ends"));
  const auto train_badly = [&] {
    while (peer.next_step()) {
      peer.parameters()[1] = NAN;
      peer.step_done(1.0F);
    }
  };
  BOOST_CHECK_EXCEPTION(train_badly(), Error,
                        [](const Error& error) { return error.kind() == ErrorKind::diverged; });
}

BOOST_AUTO_TEST_CASE(calls_out_of_turn_are_told) {
  Peer peer(options("turns"));
  BOOST_CHECK_THROW(peer.step_done(0), std::logic_error);
  BOOST_CHECK_THROW((void)peer.summary(), std::logic_error);
  std::vector<float> short_one(3);
  BOOST_CHECK_THROW(peer.read(short_one), std::logic_error);
  BOOST_REQUIRE(peer.next_step().has_value());
  BOOST_CHECK_THROW((void)peer.next_step(), std::logic_error);
}

BOOST_AUTO_TEST_CASE(wrong_options_are_refused_with_what_is_wrong) {
  const auto text = [&](auto change) {
    PeerOptions wrong = options("wrong");
    change(wrong);
    return refused(wrong, ErrorKind::usage);
  };
  BOOST_TEST(text([](PeerOptions& o) { o.parameters.clear(); }) ==
             "parameters: are 0, from 1 to 1073741824 are accepted");
  BOOST_TEST(text([](PeerOptions& o) { o.parameters[1] = std::nanf(""); }) ==
             "parameters: nan is not from -1e+30 to 1e+30");
  BOOST_TEST(text([](PeerOptions& o) { o.samples = 0; }) ==
             "samples: are 0, from 1 to 100000000 are accepted");
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"a", {3}}};
             }) == "parameters: the shapes have 3 values together, but there are 4");
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"a", {3}}, {"b", {65536, 65536, 65536}}};
             }) == "parameters: the shapes up to 'b' do not fit 4 values");
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"a", {3}}, {"b", {0}}, {"c", {1}}};
             }) == "parameters: the shapes up to 'b' do not fit 4 values");
  // A shape without sides has one value, and the third one has 2^64 - 1.
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"a", {4}}, {"b", {}}, {"c", {4294967295, 641, 6700417}}};
             }) == "parameters: the shapes up to 'b' do not fit 4 values");
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"a", {2}}, {"a", {2}}};
             }) == "tensors: 'a' is the name of two");
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"", {4}}};
             }) == "parameters: '' needs a name and at most 8 dimensions");
  BOOST_TEST(text([](PeerOptions& o) {
               o.buffers = {{{"var", {1}}, {-1.0F}, true}};
             }) == "var: begins with a value below 0");
  BOOST_TEST(text([](PeerOptions& o) {
               o.buffers = {{{"var", {2}}, {1.0F}}};
             }) == "buffers: the shapes up to 'var' do not fit 1 values");
  BOOST_TEST(text([](PeerOptions& o) { o.name = std::string(1000, 'n'); }).starts_with("--name"));
}

BOOST_AUTO_TEST_CASE(tensors_that_no_checkpoint_could_hold_are_refused) {
  const auto text = [&](auto change) {
    PeerOptions wrong = options("wrong");
    change(wrong);
    return refused(wrong, ErrorKind::usage);
  };
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"__metadata__", {4}}};
             }).starts_with("tensors: '__metadata__' is not for a tensor"));
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{"caf\xe9", {4}}};
             }) == "tensors: the name of number 0 is not UTF-8");
  BOOST_TEST(text([](PeerOptions& o) {
               o.tensors = {{std::string(1 << 24, 'n'), {4}}};
             }).ends_with("at most 16777216 are accepted: give them shorter names"));
  BOOST_TEST(text([](PeerOptions& o) {
               o.parameters.assign(65536, 0.0F);
               for (int i = 0; i < 65536; ++i) o.tensors.push_back({std::to_string(i), {1}});
               o.buffers = {{{"one", {1}}, {0.0F}}};
             }) == "tensors: are 65537, at most 65536 are accepted");
}

BOOST_AUTO_TEST_CASE(programs_with_other_buffers_are_told_so) {
  PeerOptions first = options("first");
  first.set = {"swarm.wait_for=1", "run.samples=1000000"};
  first.buffers = {{{"count", {1}}, {1.0F}, true}};
  Peer one(first);
  PeerOptions second = options("second");
  second.set = first.set;
  second.join = {one.address()};
  const std::vector<std::vector<starling::Buffer>> others{{},
                                                          {{{"count", {1}}, {2.0F}, true}},
                                                          {{{"count", {1, 1}}, {1.0F}, true}},
                                                          {{{"count", {1}}, {1.0F}, false}}};
  for (const auto& buffers : others) {
    second.buffers = buffers;
    Peer two(second);
    BOOST_CHECK_EXCEPTION((void)two.next_step(), Error, [](const Error& error) {
      BOOST_TEST((error.kind() == ErrorKind::run_file), error.what());
      return std::string(error.what()).find("model.buffers: ") != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_CASE(errors_of_the_run_file_and_of_addresses_are_thrown) {
  PeerOptions wrong = options("wrong");
  wrong.set = {"train.momentum=0.5"};
  BOOST_TEST(refused(wrong, ErrorKind::run_file).find("train.momentum") != std::string::npos);
  wrong = options("wrong");
  wrong.set = {"exchange.mode=allreduce", "swarm.peers=2"};
  BOOST_TEST(refused(wrong, ErrorKind::run_file).find("exchange.mode") != std::string::npos);
  wrong = options("wrong");
  wrong.run_file = folder / "none.toml";
  BOOST_TEST(refused(wrong, ErrorKind::run_file).find("none.toml") != std::string::npos);
  wrong = options("wrong");
  wrong.listen = "nowhere";
  BOOST_TEST(!refused(wrong, ErrorKind::usage).empty());
}

BOOST_AUTO_TEST_SUITE_END()
