// What a run file says of training.
#pragma once

#include <cstdint>
#include <string>

namespace starling::train {

enum class Optimizer { sgd, adamw };
enum class Schedule { constant, cosine };

struct Config {
  Optimizer optimizer = Optimizer::sgd;
  double lr = 0.05;
  double momentum = 0.9;      ///< sgd
  double beta1 = 0.9;         ///< adamw
  double beta2 = 0.999;       ///< adamw
  double epsilon = 1e-8;      ///< adamw
  double weight_decay = 0.0;  ///< sgd: added to the gradient; adamw: decoupled
  std::uint32_t batch = 64;   ///< samples a step of one peer
  Schedule schedule = Schedule::constant;
  double warmup = 0.0;  ///< fraction of the run with a linearly rising learning rate
  std::string device = "cpu";
  std::uint32_t threads = 1;  ///< compute threads of one peer

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace starling::train
