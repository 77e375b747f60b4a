#include "runfile/invite.hpp"

#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace starling::runfile;

namespace {

const std::string kRun = "0123456789abcdef0123456789abcdef";

}  // namespace

BOOST_AUTO_TEST_SUITE(invite)

BOOST_AUTO_TEST_CASE(invites_survive_being_written_and_read) {
  for (const std::string& text :
       {"one:7000/" + kRun, "192.0.2.7:7000,192.0.2.8:7001/" + kRun, "a:1,b:2,c:3,d:4/" + kRun,
        "one:7000/" + kRun + "/security=off", "[2001:db8::1]:7000,a:1/" + kRun}) {
    const auto read = parse_invite(text);
    BOOST_REQUIRE(read);
    BOOST_TEST(to_string(*read) == text);
  }
  const auto read = parse_invite("one:7000,two:7000/" + kRun + "/security=off");
  BOOST_REQUIRE(read);
  BOOST_TEST((read->addresses == std::vector<std::string>{"one:7000", "two:7000"}));
  BOOST_TEST((read->security == Security::off));
}

BOOST_AUTO_TEST_CASE(what_is_no_invite_is_refused_with_its_reason) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "no run"},
      {"one:7000", "no run"},
      {"/" + kRun, "an address is missing"},
      {"one:7000,/" + kRun, "an address is missing"},
      {",one:7000/" + kRun, "an address is missing"},
      {"a:1,b:2,c:3,d:4,e:5/" + kRun, "over 4 addresses"},
      {"one/" + kRun, "'one' is not a host:port"},
      {"one:0/" + kRun, "is not a host:port"},
      {"one:70000/" + kRun, "is not a host:port"},
      {"one:7 /" + kRun, "is not a host:port"},
      {"x$(evil):1/" + kRun, "is not a host:port"},
      {"x`evil`:1/" + kRun, "is not a host:port"},
      {":7000/" + kRun, "is not a host:port"},
      {"2001:db8::1:7000/" + kRun, "or [2001:db8::7]:7000"},
      {"[2001:db8::1:7000/" + kRun, "is not a host:port"},
      {"[2001:db8::1]/" + kRun, "is not a host:port"},
      {"[]:7000/" + kRun, "is not a host:port"},
      {"[a]:7000/" + kRun, "is not a host:port"},
      {"[fe80::1%eth0]:7000/" + kRun, "is not a host:port"},
      {"[::1$(evil)]:7000/" + kRun, "is not a host:port"},
      {"one:7000/" + kRun.substr(1), "32 hexadecimal digits"},
      {"one:7000/" + kRun + "/security=tls", "32 hexadecimal digits"},
      {"one:7000/" + std::string(32, 'x'), "32 hexadecimal digits"},
  };
  for (const auto& [text, reason] : wrong) {
    const auto read = parse_invite(text);
    BOOST_REQUIRE_MESSAGE(!read, text);
    BOOST_TEST((read.error().code == base::ErrorCode::usage));
    BOOST_TEST(read.error().text.find(reason) != std::string::npos, read.error().text);
  }
}

BOOST_AUTO_TEST_CASE(an_invite_names_what_leads_to_the_swarm_from_elsewhere) {
  using Addresses = std::vector<std::string>;
  const auto named = [](const Addresses& own, const Addresses& others) {
    return addresses_to_invite(own, others);
  };
  // An own one of each family, then others.
  BOOST_TEST((named({"[2001:db8::1]:7", "[fd00::1]:7", "10.0.0.1:7", "10.1.0.1:7"},
                    {"10.0.0.2:7", "10.0.0.1:7", "10.0.0.3:7", "10.0.0.4:7"}) ==
              Addresses{"[2001:db8::1]:7", "10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7"}));
  BOOST_TEST((named({"home.example.org:7", "10.0.0.1:7"}, {}) ==
              Addresses{"home.example.org:7", "10.0.0.1:7"}));
  // Loopback would lead to whoever is invited, unless all are on one machine.
  BOOST_TEST((named({"10.0.0.1:7"}, {"127.0.0.1:8", "[::1]:8"}) == Addresses{"10.0.0.1:7"}));
  BOOST_TEST((named({"127.0.0.1:7"}, {"127.0.0.1:8"}) == Addresses{"127.0.0.1:7", "127.0.0.1:8"}));
  // Addresses that are not safe in a shell or a line are left out.
  BOOST_TEST((named({"10.0.0.1:7"}, {"[fe80::1%eth0]:7", "x`y`:1"}) == Addresses{"10.0.0.1:7"}));
}

BOOST_AUTO_TEST_CASE(an_invite_is_one_word_for_a_shell) {
  BOOST_TEST(invite_word("one:7000/" + kRun) == "one:7000/" + kRun);
  BOOST_TEST(invite_word("[2001:db8::1]:7/" + kRun) == "'[2001:db8::1]:7/" + kRun + "'");
}

BOOST_AUTO_TEST_CASE(a_shared_run_file_says_what_is_trained_and_nothing_of_one_machine) {
  const std::string text =
      "[run]\nname = 'x'\nepochs = 2\n[model]\ninput = [4]\nlayers = [{ type = 'linear', out = 2 "
      "}]\n[data]\nsource = 'fashion-mnist'\n[train]\nlr = 0.3\n[exchange]\ndensity = 0.01\n";
  const auto plain = parse_run_file(text, "plain");
  BOOST_REQUIRE(plain);
  const std::string own[] = {"train.device=cuda:3",       "train.threads=7",
                             "swarm.join=['10.0.0.1:7']", "swarm.wait_for=3",
                             "security.secret=/my/key",   "limits.steps_per_second=5",
                             "exchange.upload_limit=8",   "exchange.cpu_share=0.2",
                             "links.fabric=none",         "links.fabric_ports=5000-5009"};
  const auto here = parse_run_file(text, "here", own);
  BOOST_REQUIRE(here);
  const auto there = parse_run_file(shared_toml(*here), "there");
  BOOST_REQUIRE(there);
  BOOST_TEST((*there == *plain));
}

BOOST_AUTO_TEST_CASE(a_shared_run_file_is_of_the_same_run) {
  const std::string text =
      "[run]\nsamples = 2\n[model]\ninput = [4]\nlayers = [{ type = 'linear', out = 2 }]\n"
      "[data]\nsource = 'npy'\npath = '/here'\n";
  const std::vector<std::vector<std::string>> settings{{},
                                                       {"data.split=private", "data.classes=5"},
                                                       {"data.split=dirichlet", "data.alpha=0.3"},
                                                       {"exchange.mode=allreduce", "swarm.peers=3"},
                                                       {"exchange.mirror=bf16"}};
  for (const auto& set : settings) {
    const auto here = parse_run_file(text, "here", set);
    BOOST_REQUIRE_MESSAGE(here, (here ? "" : here.error().text));
    const auto there = parse_run_file(shared_toml(*here), "there");
    BOOST_REQUIRE_MESSAGE(there, (there ? "" : there.error().text));
    BOOST_TEST(canonical(*there, {}) == canonical(*here, {}));
  }
}

BOOST_AUTO_TEST_CASE(a_shared_run_file_does_not_tell_where_files_are) {
  const std::string text =
      "[run]\nsamples = 2\n[model]\ninit = '/home/me/w'\npreset = 'gpt'\n[data]\n"
      "source = 'text'\npath = ['/srv/a.txt', '/srv/books/']\nvocabulary = '/srv/v'\n";
  const auto shared = parse_run_file(shared_toml(parse_run_file(text, "here").value()), "there");
  BOOST_REQUIRE(shared);
  BOOST_TEST((shared->data.path == std::vector<std::string>{"a.txt", "books"}));
  BOOST_TEST(shared->data.vocabulary == "v");
  BOOST_TEST(shared->init == "w");
  const std::string own[] = {"data.split=private"};
  BOOST_TEST(parse_run_file(shared_toml(parse_run_file(text, "here", own).value()), "there")
                 .value()
                 .data.path.empty());
}

BOOST_AUTO_TEST_CASE(settings_for_another_machine_are_those_that_a_shared_run_file_has) {
  const std::string set[] = {"train.lr=0.1",           "train.device=cuda:3",
                             "run.name=it's",          "train.threads=7",
                             "swarm.join=['a:7']",     "swarm.wait_for=3",
                             "security.secret=/key",   "limits.steps_per_second=5",
                             "exchange.cpu_share=0.2", "exchange.upload_limit=8",
                             "links.fabric=rack",      "data.path=/a b"};
  BOOST_TEST(shared_settings({}, set) ==
             " --set 'train.lr=0.1' --set 'run.name=it'\\''s' --set 'data.path=/a b'");
  RunFile own;
  own.data.split = data::Split::private_data;
  BOOST_TEST(shared_settings(own, set) == " --set 'train.lr=0.1' --set 'run.name=it'\\''s'");
  BOOST_TEST(shared_settings({}, {}) == "");
}

BOOST_AUTO_TEST_CASE(files_that_a_run_file_names_are_listed) {
  const std::string text =
      "[run]\nsamples = 2\n[model]\ninit = '/w'\npreset = 'gpt'\n[data]\nsource = 'text'\n"
      "path = ['/a', '/b']\ntest_path = '/t'\nvocabulary = '/v'\n[security]\nsecret = '/s'\n";
  const auto run_file = parse_run_file(text, "text");
  BOOST_REQUIRE_MESSAGE(run_file, (run_file ? "" : run_file.error().text));
  std::string files;
  for (const NamedFile& file : named_files(*run_file)) files += file.key + " " + file.value + "\n";
  BOOST_TEST(files ==
             "model.init /w\ndata.path /a, /b\ndata.test_path /t\ndata.vocabulary /v\n"
             "security.secret /s\n");
  BOOST_TEST(named_files(RunFile{}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
