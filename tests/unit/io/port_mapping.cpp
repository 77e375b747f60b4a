// The peer's side of port mapping against scripts that stand for `starling map-port`.
#include "io/port_mapping.hpp"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.hpp"
#include "tests/temporary_folder.hpp"

using namespace starling;
using namespace starling::io;
using namespace starling::io::test;

namespace {

struct Mapped {
  /// A shell script that replaces the program; its arguments are those of the program.
  std::string script(const std::string& text) {
    const std::string path = folder / "mapper";
    folder.write("mapper", "#!/bin/sh\n" + text);
    BOOST_REQUIRE(chmod(path.c_str(), 0700) == 0);
    return path;
  }

  void start(const std::string& program) {
    mapping = std::make_unique<PortMapping>(
        loop, program, "0.0.0.0:7000",
        PortMapping::Observer{[this] { ++changes; },
                              [this](const std::string& text) { notes += text + "\n"; }});
  }

  bool noted(const std::string& text) {
    return run_until(loop, [&] { return notes.find(text) != std::string::npos; });
  }

  testing::TemporaryFolder folder;
  Loop loop = make_loop();
  std::string notes;
  int changes = 0;
  std::unique_ptr<PortMapping> mapping;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(port_mapping, Mapped)

BOOST_AUTO_TEST_CASE(what_the_process_says_is_told_and_it_ends_when_its_input_does) {
  start(
      script("echo mapped pcp 203.0.113.5:7000 1200\n"
             "cat\n"  // until its input ends
             "echo ended with \"$@\" > " +
             (folder / "end") + "\n"));
  BOOST_TEST(noted("lets others in at 203.0.113.5:7000 (by PCP)"));
  BOOST_TEST(changes == 1);
  BOOST_TEST(mapping->addresses() == std::vector<std::string>{"203.0.113.5:7000"},
             boost::test_tools::per_element());
  mapping.reset();
  BOOST_TEST(folder.text("end") == "ended with map-port 0.0.0.0:7000\n");
}

BOOST_AUTO_TEST_CASE(the_process_inherits_next_to_nothing) {
  const int inheritable = ::fcntl(STDERR_FILENO, F_DUPFD, 50);  // and kept by exec
  ::setenv("STARLING_TEST_SECRET", "word", 1);
  start(script("env > " + (folder / "env") + "\n[ -e /proc/self/fd/" + std::to_string(inheritable) +
               " ] && echo open > " + (folder / "open") + "\necho none ipv4 ready\ncat\n"));
  BOOST_TEST(noted("ready"));
  BOOST_TEST(folder.text("env").find("PWD") != std::string::npos);
  BOOST_TEST(folder.text("env").find("SECRET") == std::string::npos);
  BOOST_TEST(folder.text("env").find("HOME=") == std::string::npos);
  BOOST_TEST(folder.text("open") == "");
  ::unsetenv("STARLING_TEST_SECRET");
  ::close(inheritable);
}

BOOST_AUTO_TEST_CASE(a_process_that_says_what_it_must_not_is_ended_and_started_again_later) {
  start(script("echo mapped pcp 203.0.113.5:7000 1200\necho rubbish\nexec sleep 1000\n"));
  BOOST_TEST(noted("it says: an unknown word; started again in 5 s"));
  // The router's mapping may still exist.
  BOOST_TEST(mapping->addresses().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_process_that_ends_is_started_again_later) {
  start(script("exit 1\n"));
  BOOST_TEST(noted("it ended; started again in 5 s"));
  BOOST_TEST(changes == 0);
}

BOOST_AUTO_TEST_CASE(a_program_that_is_not_there_is_named) {
  start("/nowhere/starling");
  BOOST_TEST(notes ==
             "no port is mapped on the router: /nowhere/starling cannot be started: No such file "
             "or directory\n");
}

BOOST_AUTO_TEST_CASE(a_process_that_does_not_end_is_killed) {
  start(script("trap '' TERM\necho none ipv4 $$\nwhile :; do read x || exec sleep 1000; done\n"));
  BOOST_TEST(noted("for IPv4: "));
  const auto begin = notes.find("for IPv4: ") + 10;
  const pid_t process = std::stoi(notes.substr(begin));
  BOOST_TEST(::kill(process, 0) == 0);
  mapping.reset();
  BOOST_TEST(::kill(process, 0) != 0);
}

BOOST_AUTO_TEST_CASE(the_program_is_looked_for_and_may_be_named) {
  ::setenv("STARLING_PROGRAM", "/opt/starling", 1);
  BOOST_TEST(find_mapper().value_or("") == "/opt/starling");
  ::unsetenv("STARLING_PROGRAM");
  const auto found = find_mapper();
  if (found) {
    BOOST_TEST(found->ends_with("/peers/starling"), *found);
  } else {
    BOOST_TEST(found.error().text.find("name it in STARLING_PROGRAM") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
