#include "report/bytes_json.hpp"

#include <nlohmann/json.hpp>

namespace starling::report {

nlohmann::ordered_json bytes_json(const BytesByPurpose& bytes) {
  nlohmann::ordered_json json{{"total", bytes.total}};
  for (const auto& [name, part] : kPurposes) json[name] = bytes.*part;
  return json;
}

}  // namespace starling::report
