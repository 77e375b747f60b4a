#include "report/bytes_json.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

namespace starling::report {

nlohmann::ordered_json bytes_json(const BytesByPurpose& bytes) {
  nlohmann::ordered_json json{{"total", bytes.total}};
  for (const auto& [name, part] : kPurposes) json[name] = bytes.*part;
  return json;
}

nlohmann::ordered_json number_json(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

}  // namespace starling::report
