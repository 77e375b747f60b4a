#include "cases.hpp"
#include "network.hpp"

namespace starling::conformance {

using namespace compute;

Cases norm_cases() {
  return {
      {"batch_norm_of_image",
       [] {
         return Network({3, 5, 4})
             .conv(6, 3, {.weight = kNoBias})
             .batch_norm()
             .relu()
             .linear(3)
             .classify(3);
       }},
      {"batch_norm_16_channels",
       [] {
         return Network({2, 6, 6})
             .conv(16, 3, {.padding = 1, .weight = kNoBias})
             .batch_norm()
             .relu()
             .conv(16, 3, {.stride = 2, .padding = 1})
             .batch_norm()
             .global_avg_pool()
             .linear(3)
             .classify(3);
       }},
      {"batch_norm_of_features",
       [] { return Network({6}).linear(7).batch_norm(1e-3F, 0.3F).relu().linear(3).classify(3); },
       kToleranceOfFewValues, 3},
      {"batch_norm_of_20_features",
       [] { return Network({5}).linear(20).batch_norm().linear(3).classify(3); },
       kToleranceOfFewValues, 3},
      {"batch_norm_relu_max_pool2d",
       [] {
         return Network({2, 7, 8})
             .conv(12, 3, kSame)
             .batch_norm()
             .relu()
             .max_pool(3, 2, 1)
             .linear(3)
             .classify(3);
       }},
      {"batch_norm_first",
       [] {
         return Network({2, 4, 5}).batch_norm().conv(4, 3).linear(3).classify(3);
       }},
      {"batch_norm_last", [] { return Network({5}).linear(4).batch_norm().classify(4); },
       kToleranceOfFewValues, 3},
      {"layer_norm",
       [] {
         return Network({4, 6}).linear(10).layer_norm().linear(3).classify(3);
       }},
      {"layer_norm_without_bias",
       [] {
         return Network({3, 6}).linear(16).layer_norm(1e-3F, false).linear(3).classify(3);
       }},
      {"layer_norm_of_features",
       [] { return Network({6}).layer_norm().linear(9).layer_norm().linear(3).classify(3); }},
      {"rms_norm",
       [] {
         return Network({4, 6}).linear(10).rms_norm().linear(3).classify(3);
       }},
      {"rms_norm_of_features",
       [] { return Network({6}).rms_norm(1e-2F).linear(16).rms_norm().linear(3).classify(3); }},
  };
}

namespace {

Cases embedding_cases() {
  return {
      {"linear_of_positions",
       [] {
         return Network({4, 5}).linear(7).relu().linear(3, false).classify(3);
       }},
      {"embedding", [] { return Network::of_tokens(6, 11).embedding(5).linear(4).classify(4); }},
      {"positions",
       [] { return Network::of_tokens(5, 9).embedding(6).positions().linear(9).classify(9); }},
      {"positions_first",
       [] {
         return Network({4, 5}).positions().linear(3).classify(3);
       }},
      {"tied_linear",
       [] {
         return Network::of_tokens(5, 13).embedding(6).positions().linear(6).tied_linear().classify(
             13);
       }},
  };
}

Cases attention_cases() {
  return {
      {"attention_one_head",
       [] {
         return Network({7, 5}).linear(12).attention(1, 1).linear(3).classify(3);
       }},
      {"attention_heads",
       [] {
         return Network({9, 6}).linear(45).attention(3, 3).linear(3).classify(3);
       }},
      {"attention_grouped",
       [] {
         return Network({6, 5}).linear(32).attention(4, 2).linear(3).classify(3);
       }},
      {"attention_one_key_for_all",
       [] {
         return Network({6, 5}).linear(18, false).attention(4, 1).linear(3).classify(3);
       }},
      {"attention_rotary",
       [] {
         return Network({8, 5}).linear(36).attention(2, 2, 1e4F).linear(3).classify(3);
       }},
      {"attention_rotary_grouped",
       [] {
         return Network({17, 4}).linear(64).attention(4, 2, 5e5F).linear(3).classify(3);
       }},
      {"attention_one_position",
       [] {
         return Network({1, 5}).linear(12).attention(1, 1).linear(3).classify(3);
       }},
      {"attention_first_and_last",
       [] {
         return Network({6, 24}).attention(2, 1, 100.0F).linear(18).attention(2, 2).classify(6);
       }},
      {"attention_70_positions",
       [] {
         return Network({70, 3}).linear(16).attention(2, 1, 1e4F).linear(3).classify(3);
       }},
  };
}

/// One after a linear layer, one after convolutions, and where nothing comes before or after.
void add_activation(Cases& cases, const std::string& name, ActivationKind kind) {
  cases.push_back(
      {name, [=] { return Network({5}).linear(9).activation(kind).linear(3).classify(3); }});
  cases.push_back({name + "_of_image", [=] {
                     return Network({2, 5, 4})
                         .conv(4, 2)
                         .activation(kind)
                         .conv(16, 2)
                         .activation(kind)
                         .linear(3)
                         .classify(3);
                   }});
  cases.push_back({name + "_first_and_last", [=] {
                     return Network({3, 4}).activation(kind).linear(3).activation(kind).classify(3);
                   }});
}

}  // namespace

Cases sequence_cases() {
  Cases all = embedding_cases();
  const Cases more = attention_cases();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Cases activation_cases() {
  Cases all{
      {"swiglu", [] { return Network({5}).linear(8).swiglu().linear(3).classify(3); }},
      {"swiglu_of_positions",
       [] {
         return Network({4, 5}).linear(34).swiglu().linear(3).classify(3);
       }},
      {"swiglu_first_and_last",
       [] { return Network({10}).swiglu().linear(6).swiglu().classify(3); }},
      {"dropout", [] { return Network({9}).linear(16).dropout(0.5F).linear(4).classify(4); }},
      {"dropout_of_image",
       [] {
         return Network({2, 5, 6})
             .conv(16, 2)
             .relu()
             .dropout(0.25F)
             .conv(3, 2)
             .dropout(0.1F)
             .linear(3)
             .classify(3);
       }},
      {"dropout_of_positions",
       [] {
         return Network({5, 4}).linear(7).dropout(0.3F).linear(3).classify(3);
       }},
      {"dropout_first_and_last",
       [] { return Network({8}).dropout(0.2F).linear(6).dropout(0.4F).classify(6); }},
      {"dropout_rate_zero", [] { return Network({5}).linear(6).dropout(0).linear(3).classify(3); }},
  };
  add_activation(all, "gelu", ActivationKind::gelu);
  add_activation(all, "gelu_tanh", ActivationKind::gelu_tanh);
  add_activation(all, "silu", ActivationKind::silu);
  return all;
}

}  // namespace starling::conformance
