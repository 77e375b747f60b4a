#include "report/bytes_json.hpp"

#include <nlohmann/json.hpp>

namespace starling::report {

nlohmann::ordered_json bytes_json(const BytesByPurpose& bytes) {
  return {{"total", bytes.total},           {"delta", bytes.delta},   {"keyframe", bytes.keyframe},
          {"membership", bytes.membership}, {"reduce", bytes.reduce}, {"other", bytes.other}};
}

}  // namespace starling::report
