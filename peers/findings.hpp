// The findings of `starling doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace starling::peers {

/// The result of a check. Only `wrong` counts against the machine.
enum class Verdict : std::uint8_t { good, absent, wrong };

struct Finding {
  std::string what;
  Verdict verdict = Verdict::good;
  std::string text;
  int exit_code = 0;  ///< of the faults found
};

class Findings {
 public:
  void add(std::string what, Verdict verdict, std::string text) {
    all_.push_back({std::move(what), verdict, std::move(text)});
  }
  void wrong(std::string what, base::Error error) {
    all_.push_back(
        {std::move(what), Verdict::wrong, std::move(error.text), base::exit_code(error.code)});
  }
  void add(Finding finding) { all_.push_back(std::move(finding)); }
  [[nodiscard]] const std::vector<Finding>& all() const noexcept { return all_; }

 private:
  std::vector<Finding> all_;
};

}  // namespace starling::peers
