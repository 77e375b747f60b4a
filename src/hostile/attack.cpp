#include "hostile/attack.hpp"

#include "base/parse_number.hpp"

namespace starling::hostile {

std::optional<Attack> parse_attack(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto kind = base::value_of(text.substr(0, colon), kAttackNames);
  if (!kind) return std::nullopt;
  const AttackTraits& traits = traits_of(*kind);
  Attack attack{.kind = *kind, .factor = traits.factor};
  if (colon == std::string_view::npos) return attack;
  const auto factor = base::parse_number<double>(text.substr(colon + 1));
  if (!factor || !(*factor >= 0 && *factor <= traits.factor_max)) return std::nullopt;
  attack.factor = *factor;
  return traits.has_factor() ? std::optional(attack) : std::nullopt;
}

}  // namespace starling::hostile
