// Dialing: how long one takes, whether it gets through, and which of two that meet makes the link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/network/addresses.hpp"
#include "sim/network/links.hpp"
#include "sim/network/paths.hpp"
#include "sim/shared.hpp"

namespace starling::sim {

class Dialing {
 public:
  /// All outlive this.
  Dialing(Shared& shared, const PathTable& paths, Addresses& addresses, Links& links,
          Receiver& receiver)
      : shared_(shared), paths_(paths), addresses_(addresses), links_(links), receiver_(receiver) {}

  void act(Node& node, const peer::Dial& action);
  void happen(const Dialed& dialed);

 private:
  /// Both ends have to dial at the same time: this one has begun to.
  struct Punch {
    std::uint64_t serial = 0;
    Life by;
    std::string address;
  };

  void connect(Node& from, Node& to, const Dialed& dialed);
  template <class Which>
  [[nodiscard]] std::optional<Punch> take_punch(Which which);

  Shared& shared_;
  const PathTable& paths_;
  Addresses& addresses_;
  Links& links_;
  Receiver& receiver_;
  std::vector<Punch> punches_;
  std::uint64_t last_punch_ = 0;
};

}  // namespace starling::sim
