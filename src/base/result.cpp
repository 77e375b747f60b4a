#include "base/result.hpp"

namespace starling::base {

int exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::usage:
      return 2;
    case ErrorCode::run_file:
    case ErrorCode::secret:
    case ErrorCode::data:
      return 3;
    case ErrorCode::unreachable:
      return 4;
    case ErrorCode::diverged:
      return 5;
    case ErrorCode::device:
    case ErrorCode::no_room:
      return 6;
    case ErrorCode::unsettled:
      return 7;
    case ErrorCode::internal:
    case ErrorCode::network:
    case ErrorCode::protocol:
    case ErrorCode::judged_bad:
      break;
  }
  return 1;
}

}  // namespace starling::base
