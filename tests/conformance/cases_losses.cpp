#include "cases.hpp"
#include "network.hpp"

namespace starling::conformance {

Cases loss_cases() {
  return {
      {"label_smoothing", [] { return Network({6}).linear(5).classify(5, 0.1F); }},
      {"label_smoothing_of_positions",
       [] { return Network::of_tokens(4, 7).embedding(5).linear(7).classify(7, 0.3F); }},
      {"mean_squared", [] { return Network({6}).linear(4).relu().linear(3).mean_squared(); }},
      {"mean_squared_of_image",
       [] {
         return Network({2, 5, 4}).conv(4, 3, kSame).relu().conv(3, 2).mean_squared();
       }},
      {"mean_squared_of_positions",
       [] {
         return Network({3, 4}).linear(5).relu().mean_squared();
       }},
      {"classes_beyond_a_byte", [] { return Network({3}).linear(300).classify(300); }},
  };
}

}  // namespace starling::conformance
