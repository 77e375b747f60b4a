// Lists every claim for every case and device. Where a device cannot be opened, its cases count as
// skipped, and the reason is printed.
#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "cases.hpp"
#include "checks.hpp"
#include "compute/program.hpp"
#include "harness.hpp"

namespace starling::conformance {
namespace {

namespace ut = boost::unit_test;

/// How much coarser results are with bfloat16: it rounds 2^16 times as coarsely as float32, but a
/// sum's terms only, not its partial sums.
constexpr double kRoundedTolerances = 6000;

using Check = void (*)(const std::string& device, const Case& item);

Cases join(std::initializer_list<Cases> lists) {
  Cases all;
  for (const Cases& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

/// Small enough for finite differences.
Cases small_cases() {
  return join({image_cases(), norm_cases(), sequence_cases(), activation_cases(), branch_cases(),
               loss_cases(), run_cases()});
}

/// Those with PyTorch's results.
Cases stored_cases() { return join({small_cases(), deep_cases()}); }

/// A suite of one test a case.
ut::test_suite* suite_of(const std::string& claim, const Cases& cases, auto body,
                         const std::string& missing = {}) {
  ut::test_suite* suite = BOOST_TEST_SUITE(claim);
  for (const Case& item : cases) {
    ut::test_case* test = ut::make_test_case([=] { body(item); }, item.name, __FILE__, __LINE__);
    if (!missing.empty()) {
      test->add_precondition([missing](ut::test_unit_id) {
        boost::test_tools::assertion_result result(false);
        result.message() << missing;
        return result;
      });
    }
    suite->add(test);
  }
  return suite;
}

/// Those without kinks: of the others a rounded value can lie on the other side of one, and has
/// another gradient there.
Cases smooth(Cases cases) {
  std::erase_if(cases, [](const Case& item) {
    return std::ranges::any_of(item.graph().ops, [](const compute::Op& op) {
      const auto* const activation = std::get_if<compute::Activation>(&op.kind);
      return std::holds_alternative<compute::MaxPool2d>(op.kind) ||
             (activation != nullptr && activation->kind == compute::ActivationKind::relu);
    });
  });
  return cases;
}

/// Of devices with memory of their own.
void add_resident_claims(ut::test_suite& suite, const std::string& device,
                         const std::string& missing) {
  suite.add(suite_of(
      "resident_steps_are_those_of_the_host", run_cases(),
      [=](const Case& item) { resident_steps_are_those_of_the_host(device, item); }, missing));
  suite.add(suite_of(
      "resident_outputs_are_those_of_the_program", run_cases(),
      [=](const Case& item) { resident_outputs_are_those_of_the_program(device, item); }, missing));
  if (rounds(device)) return;  // replicas are the same
  using ReplicaCheck = void (*)(const std::string& device);
  const std::pair<const char*, ReplicaCheck> checks[] = {
      {"what_is_not_finite_is_not_applied", what_is_not_finite_is_not_applied},
      {"replica_has_the_same_bits", replica_has_the_same_bits},
      {"replica_opens_in_every_way", replica_opens_in_every_way},
      {"deltas_are_those_of_the_host", deltas_are_those_of_the_host},
      {"deltas_of_large_replicas_are_those_of_the_host",
       deltas_of_large_replicas_are_those_of_the_host},
      {"what_is_not_finite_is_told_as_by_the_host", what_is_not_finite_is_told_as_by_the_host},
      {"indices_end_where_the_replica_does", indices_end_where_the_replica_does},
      {"deltas_with_wrong_bits_are_judged_as_by_the_host",
       deltas_with_wrong_bits_are_judged_as_by_the_host}};
  for (const auto& [name, check] : checks) {
    suite.add(suite_of(
        name, {{"exchange", {}}}, [=](const Case&) { check(device); }, missing));
  }
}

/// A device's name without characters that are special for --run_test.
std::string suite_named(std::string device) {
  std::ranges::replace(device, ':', '_');
  return device;
}

void add_device(const std::string& device) {
  const bool rounded = rounds(device);
  struct Claim {
    const char* name;
    Cases cases;
    Check check;
  };
  const Cases all = join({stored_cases(), wide_cases()});
  const Cases differentiated = join({small_cases(), wide_cases()});
  const std::vector<Claim> claims{
      {"matches_finite_differences", rounded ? smooth(differentiated) : differentiated,
       matches_finite_differences},
      {"matches_pytorch", rounded ? smooth(stored_cases()) : stored_cases(), matches_pytorch},
      {"short_batch_is_a_batch_of_its_own", all, short_batch_is_a_batch_of_its_own},
      {"same_bits_twice", all, same_bits_twice},
      {"two_threads_agree", all, two_threads_agree},
      {"run_matches_pytorch", run_cases(), run_matches_pytorch},
  };
  const auto backend = open(device);
  const std::string missing = backend ? "" : backend.error().text;
  if (!backend) std::printf("skipped: %s: %s\n", device.c_str(), missing.c_str());
  ut::test_suite* suite = BOOST_TEST_SUITE(suite_named(device));
  for (const Claim& claim : claims) {
    const auto body = [=](Case item) {
      if (rounded) item.tolerance *= kRoundedTolerances;
      claim.check(device, item);
    };
    suite->add(suite_of(claim.name, claim.cases, body, missing));
  }
  if (!device.starts_with("cpu")) add_resident_claims(*suite, device, missing);
  ut::framework::master_test_suite().add(suite);
}

bool register_tests() {
  ut::framework::master_test_suite().p_name.value = "conformance";
  ut::framework::master_test_suite().add(
      suite_of("reference_matches_pytorch", stored_cases(), reference_matches_pytorch));
  for (const std::string device : {"cpu", kHostDevice, "cuda:0"}) {
    add_device(device);
    add_device(device + std::string(kRounded));
  }
  return true;
}

}  // namespace
}  // namespace starling::conformance

int main(int count, char** words) {
  return boost::unit_test::unit_test_main(starling::conformance::register_tests, count, words);
}
