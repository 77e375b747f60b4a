// Joining a swarm whose run file is only at its peers.
#include <csignal>
#include <filesystem>
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "control_client.hpp"
#include "harness.hpp"

namespace starling::integration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const Arguments kForEver{"run.samples=1000000000"};

/// A peer in a folder that is the current one of its process, where it keeps a run file.
class Joiner {
 public:
  Joiner(const testing::TemporaryFolder& folder, const std::string& invite, Arguments more = {})
      : peer_("/bin/sh", command(folder, invite, std::move(more)), folder, "joiner") {}

  [[nodiscard]] Peer& peer() noexcept { return peer_; }

 private:
  static Arguments command(const testing::TemporaryFolder& folder, const std::string& invite,
                           Arguments more) {
    fs::create_directories(folder / "joiner");
    Arguments words{"-c",
                    "cd \"$1\" && shift && exec \"$@\"",
                    "sh",
                    folder.path(),
                    program(),
                    "join",
                    invite,
                    "--dir",
                    folder / "joiner",
                    "--listen",
                    "127.0.0.1:0"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Peer peer_;
};

std::string invite_of(Peer& peer) {
  BOOST_TEST_REQUIRE(!peer.address().empty(), peer.process().err());
  std::string text;
  BOOST_TEST_REQUIRE(eventually([&] {
    const auto reply = peers::ask(peer.control(), "/invite");
    if (reply) text = Json::parse(*reply).at("invite");
    return reply.has_value();
  }));
  return text;
}

/// The path at which a run file is kept.
std::string kept(const testing::TemporaryFolder& folder, const std::string& invite) {
  return folder / ("runs/joined/" + invite.substr(invite.find('/') + 1) + ".toml");
}

BOOST_AUTO_TEST_CASE(an_invited_machine_trains_the_swarm_s_run_and_comes_back_without_it) {
  Swarm swarm{1, {"run.samples=1000000000", "train.lr=0.0375", "limits.steps_per_second=200"}};
  const std::string invite = invite_of(swarm[0]);
  {
    Joiner joiner(swarm.folder(), invite);
    BOOST_TEST_REQUIRE(eventually([&] {
                         const auto status = joiner.peer().status();
                         return status && status->exchanges > 0;
                       }),
                       joiner.peer().process().err());
    const std::string text = text_of(kept(swarm.folder(), invite));
    BOOST_TEST(text.find("lr = 0.0375\n") != std::string::npos, text);
    BOOST_TEST(text.find("steps_per_second = 0\n") != std::string::npos, text);
    swarm.kill(0);
    joiner.peer().process().signal(SIGTERM);
    BOOST_TEST(joiner.peer().process().wait().value_or(-1) == 0, joiner.peer().process().err());
  }
  Joiner again(swarm.folder(), invite);
  BOOST_TEST(eventually([&] {
               const auto status = again.peer().status();
               return status && status->steps > 0;
             }),
             again.peer().process().err());
  BOOST_TEST(again.peer().process().out().find("goes on from") != std::string::npos,
             again.peer().process().out());
}

BOOST_AUTO_TEST_CASE(a_swarm_s_secret_guards_its_run_file) {
  const testing::TemporaryFolder folder;
  const std::string secret = folder / "secret";
  BOOST_TEST(run(folder, {"keygen", secret}).code.value_or(-1) == 0);
  Swarm swarm{1, {"run.samples=1000000000", "security.secret=" + secret}};
  const std::string invite = invite_of(swarm[0]);
  const Ended stranger = run(swarm.folder(), {"join", invite});
  BOOST_TEST(stranger.code.value_or(-1) == 3);
  BOOST_TEST(stranger.err.find("secret") != std::string::npos, stranger.err);

  Joiner joiner(swarm.folder(), invite, {"--secret", secret});
  BOOST_TEST(eventually([&] {
               const auto status = joiner.peer().status();
               return status && status->links == 1;
             }),
             joiner.peer().process().err());
}

BOOST_AUTO_TEST_CASE(links_that_are_not_encrypted_are_named_in_the_invite) {
  Swarm swarm{1, {"run.samples=1000000000", "security.mode=off"}};
  const std::string invite = invite_of(swarm[0]);
  BOOST_TEST(invite.ends_with("/security=off"), invite);
  Joiner joiner(swarm.folder(), invite);
  BOOST_TEST(eventually([&] {
               const auto status = joiner.peer().status();
               return status && status->links == 1;
             }),
             joiner.peer().process().err());
}

// A run file that is not given out must be there, with its --set.
BOOST_AUTO_TEST_CASE(without_an_invite_the_printed_command_is_one_that_joins) {
  const testing::TemporaryFolder folder;
  Peer first(program(),
             {"up", long_run_file(folder), "--dir", folder / "first", "--listen", "127.0.0.1:0",
              "--set", "run.samples=1000000000", "--set", "train.lr=0.01", "--set",
              "train.threads=1", "--set", "run.name=it-s"},
             folder, "first");
  BOOST_TEST_REQUIRE(!first.address().empty(), first.process().err());
  const auto command = [&] {
    const std::string out = first.process().out();
    const std::string before = "  starling ";
    const auto begin = out.find(before);
    const auto end = out.find('\n', begin);
    if (begin == std::string::npos || end == std::string::npos) return std::string();
    return out.substr(begin + before.size(), end - begin - before.size());
  };
  BOOST_TEST_REQUIRE(eventually([&] { return !command().empty(); }), first.process().err());
  BOOST_TEST(command() == "up '" + (folder / "a long one.toml") +
                              "' --set 'run.samples=1000000000' --set 'train.lr=0.01' --set "
                              "'run.name=it-s' --join " +
                              first.address());
  Peer second("/bin/sh",
              {"-c", "exec " + program() + " " + command() + " --name second --dir " +
                         (folder / "second") + " --listen 127.0.0.1:0"},
              folder, "second");
  BOOST_TEST(eventually([&] {
               const auto status = second.status();
               return status && status->links == 1;
             }),
             second.process().err());
}

BOOST_AUTO_TEST_CASE(who_cannot_be_asked_is_named_with_the_reason) {
  Swarm swarm{1, kForEver};
  const std::string invite = invite_of(swarm[0]);
  const std::string other = std::string(32, '0');
  const Ended ended =
      run(swarm.folder(), {"join", "127.0.0.1:1," + swarm[0].address() + "/" + other});
  BOOST_TEST(ended.code.value_or(-1) == 4);
  const std::string run_id = invite.substr(invite.find('/') + 1);
  for (const std::string& part : {std::string("127.0.0.1:1: connection refused"),
                                  swarm[0].address() + ": trains another run, " + run_id}) {
    BOOST_TEST(ended.err.find(part) != std::string::npos, ended.err);
  }
  BOOST_TEST(!fs::exists(kept(swarm.folder(), other)));

  const Ended wrong = run(swarm.folder(), {"join", "nonsense"});
  BOOST_TEST(wrong.code.value_or(-1) == 2);
  BOOST_TEST(wrong.err.find("is not an invite") != std::string::npos, wrong.err);
}

// A run file from elsewhere must not choose which files of this machine are trained on.
BOOST_AUTO_TEST_CASE(files_that_the_run_file_names_are_read_only_if_the_user_says_so) {
  const testing::TemporaryFolder folder;
  folder.write("text.txt", std::string(4000, 'a') + std::string(4000, 'b'));
  folder.write("run.toml",
               "[run]\nsamples = 1000000000\n[model]\npreset = 'gpt'\ndepth = 1\n"
               "width = 16\nheads = 1\ncontext = 16\n[data]\nsource = 'text'\npath = '" +
                   (folder / "text.txt") + "'\n");
  Peer first(program(),
             {"up", folder / "run.toml", "--dir", folder / "first", "--listen", "127.0.0.1:0"},
             folder, "first");
  const std::string invite = invite_of(first);
  Joiner unasked(folder, invite);
  BOOST_TEST(unasked.peer().process().wait().value_or(-1) == 2);
  BOOST_TEST(unasked.peer().process().err().find("--set data.path=PATH   (it says text.txt)") !=
                 std::string::npos,
             unasked.peer().process().err());
  Joiner asked(folder, invite, {"--set", "data.path=" + (folder / "text.txt")});
  BOOST_TEST(eventually([&] {
               const auto status = asked.peer().status();
               return status && status->links == 1;
             }),
             asked.peer().process().err());
}

// The sender of a run file only claims which run it is of.
BOOST_AUTO_TEST_CASE(a_run_file_of_another_run_than_the_invite_s_is_not_trained) {
  const testing::TemporaryFolder folder;
  const std::string invite = "127.0.0.1:1/" + std::string(32, '0');
  std::filesystem::create_directories(folder / "runs/joined");
  folder.write("runs/joined/" + std::string(32, '0') + ".toml", text_of(mlp_run_file()));
  Joiner joiner(folder, invite);
  BOOST_TEST(joiner.peer().process().wait().value_or(-1) == 3);
  BOOST_TEST(joiner.peer().process().err().find("the invite is for run 0000") != std::string::npos,
             joiner.peer().process().err());
  Joiner open(folder, invite + "/security=off");
  BOOST_TEST(open.peer().process().wait().value_or(-1) == 3);
  BOOST_TEST(open.peer().process().err().find("security.mode") != std::string::npos,
             open.peer().process().err());
}

// The next join would take it again, without a request for another one.
BOOST_AUTO_TEST_CASE(a_run_file_that_was_fetched_and_makes_another_run_is_not_kept) {
  Swarm swarm{1, kForEver};
  const std::string invite = invite_of(swarm[0]);
  Joiner joiner(swarm.folder(), invite, {"--set", "run.seed=77"});
  BOOST_TEST(joiner.peer().process().wait().value_or(-1) == 3);
  BOOST_TEST(joiner.peer().process().err().find("that was handed out") != std::string::npos,
             joiner.peer().process().err());
  BOOST_TEST(!fs::exists(kept(swarm.folder(), invite)));
}

BOOST_AUTO_TEST_CASE(a_relay_brings_peers_together_and_hands_out_their_run_file) {
  const testing::TemporaryFolder folder;
  Peer relay(program(),
             {"relay", "--listen", "127.0.0.1:0", "--dir", folder / "relay", "--name", "relay"},
             folder, "relay");
  BOOST_TEST_REQUIRE(!relay.address().empty(), relay.process().err());
  BOOST_TEST(has(relay.process().out(), "\n  --join " + relay.address() + "\n"),
             relay.process().out());
  Peer one(folder, "one", relay.address(), {kForEver[0], "limits.steps_per_second=200"});
  BOOST_TEST_REQUIRE(eventually([&] { return relay.status() && relay.status()->links == 1; }),
                     one.process().err());
  const std::string invite = invite_of(one);
  Joiner joiner(folder, relay.address() + invite.substr(invite.find('/')));
  BOOST_TEST(eventually([&] {
               const auto status = joiner.peer().status();
               return status && status->exchanges > 0;
             }),
             joiner.peer().process().err());
  BOOST_TEST(one.state_of("relay") == "alive");
  const Ended status = run(folder, {"status", "--peer", relay.dir()});
  BOOST_TEST(has(status.out, "\nphase        relaying\nrun          " +
                                 invite.substr(invite.find('/') + 1) + "\nlinks        2\n"),
             status.out);
  const Ended members = run(folder, {"members", "--peer", one.dir()});
  BOOST_TEST(has(members.out, "           -       -         -        -      -  " + relay.address()),
             members.out);
  relay.process().signal(SIGTERM);
  BOOST_TEST(relay.process().wait().value_or(-1) == 0, relay.process().err());
  BOOST_TEST(eventually([&] { return one.state_of("relay") == "left"; }));
}

BOOST_AUTO_TEST_CASE(a_relay_that_cannot_be_says_why) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](Arguments arguments, const std::string& why) {
    arguments.insert(arguments.begin(), {"relay", "--dir", folder / "relay"});
    const Ended ended = run(folder, arguments);
    BOOST_TEST(ended.code.value_or(-1) == 2, ended.err);
    BOOST_TEST(has(ended.err, why), ended.err);
  };
  const std::string run(32, 'a');
  refused({}, "--listen is required");
  refused({"--listen", "nowhere"}, "--listen: \"nowhere\" is not an address");
  refused({"--listen", "127.0.0.1:0", "--circuits", "0"}, "--circuits");
  refused({"--listen", "127.0.0.1:0", "--limit", "0"}, "--limit: 0 is not a number from 0.01");
  refused({"--listen", "127.0.0.1:0", "--invite", "nonsense"}, "--invite: ");
  refused({"--listen", "127.0.0.1:0", "--invite", "127.0.0.1:1/" + run + "/security=off"},
          "nobody relays for it");
}

}  // namespace
}  // namespace starling::integration
