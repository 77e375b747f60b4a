#include "cases.hpp"
#include "network.hpp"

namespace starling::conformance {

using namespace compute;

// Results with several users are where fusing, working in place and sharing memory go wrong.
Cases branch_cases() {
  return {
      {"add_to_input",
       [] {
         return Network({3, 5, 4}).conv(3, 3, kSame).relu().add(kGraphInput).linear(3).classify(3);
       }},
      {"add_of_projection",
       [] {
         return Network({3, 6, 5})
             .conv(16, 3, {.stride = 2, .padding = 1})
             .batch_norm()
             .relu()
             .conv(16, 3, kSame)
             .at(kGraphInput)
             .conv(16, 1, {.stride = 2})
             .batch_norm()
             .add(3)
             .relu()
             .linear(3)
             .classify(3);
       }},
      {"add_to_itself", [] { return Network({5}).linear(6).add(0).linear(3).classify(3); }},
      {"add_of_one_result_three_times",
       [] {
         return Network({5})
             .linear(6)
             .relu()
             .linear(6)
             .add(0)
             .linear(6)
             .add(0)
             .add(3)
             .linear(3)
             .classify(3);
       }},
      {"relu_of_shared_linear",
       [] { return Network({5}).linear(6).relu().linear(6).add(0).linear(3).classify(3); }},
      {"relu_of_shared_conv2d",
       [] {
         return Network({2, 5, 5})
             .conv(8, 3, kSame)
             .relu()
             .conv(8, 3, kSame)
             .add(0)
             .linear(3)
             .classify(3);
       }},
      {"relu_of_input_that_is_shared",
       [] { return Network({6}).relu().linear(6).add(kGraphInput).relu().linear(3).classify(3); }},
      {"max_pool2d_of_shared_relu",
       [] {
         return Network({2, 5, 5}).conv(4, 2).relu().max_pool(3, 1, 1).add(1).linear(3).classify(3);
       }},
      {"batch_norm_of_shared_conv2d",
       [] {
         return Network({2, 4, 4})
             .conv(5, 3, kSame)
             .batch_norm()
             .relu()
             .add(0)
             .add(1)
             .linear(3)
             .classify(3);
       }},
      {"relu_of_add_that_is_shared",
       [] {
         return Network({2, 4, 4})
             .conv(8, 3, kSame)
             .at(kGraphInput)
             .conv(8, 1)
             .add(0)
             .relu()
             .conv(8, 3, kSame)
             .add(3)
             .add(2)
             .relu()
             .global_avg_pool()
             .linear(3)
             .classify(3);
       }},
      {"dropout_of_shared_linear",
       [] { return Network({5}).linear(8).dropout(0.5F).add(0).linear(3).classify(3); }},
      {"flatten_of_shared_conv2d",
       [] {
         return Network({2, 4, 4})
             .conv(8, 3)
             .flatten()
             .linear(3)
             .at(0)
             .global_avg_pool()
             .linear(3)
             .add(2)
             .classify(3);
       }},
      {"norms_of_shared_positions",
       [] {
         return Network({4, 6}).linear(8).layer_norm().add(0).rms_norm().add(2).linear(3).classify(
             3);
       }},
      {"activations_of_shared_positions",
       [] {
         return Network({3, 5})
             .linear(8)
             .activation(ActivationKind::gelu)
             .add(0)
             .activation(ActivationKind::silu)
             .add(2)
             .activation(ActivationKind::gelu_tanh)
             .add(4)
             .linear(3)
             .classify(3);
       }},
  };
}

}  // namespace starling::conformance
