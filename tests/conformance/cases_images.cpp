#include "cases.hpp"
#include "network.hpp"

namespace starling::conformance {

using namespace compute;

namespace {

Cases linear_cases() {
  return {
      {"linear", [] { return Network({7}).linear(3).classify(3); }},
      {"linear_relu_linear", [] { return Network({9}).linear(13).relu().linear(4).classify(4); }},
      {"relu_first_and_last", [] { return Network({5}).relu().linear(3).relu().classify(3); }},
      {"linear_of_image",
       [] {
         return Network({2, 3, 4}).linear(5, false).relu().linear(3).classify(3);
       }},
  };
}

Cases conv2d_cases() {
  return {
      {"conv2d_odd_channels",
       [] {
         return Network({3, 7, 5}).conv(5, 3).relu().conv(3, 2).linear(5).classify(5);
       }},
      {"conv2d_padding",
       [] {
         return Network({1, 6, 5})
             .conv(8, 3, kSame)
             .relu()
             .conv(9, 3, {.padding = 2})
             .relu()
             .linear(3)
             .classify(3);
       }},
      {"conv2d_stride",
       [] {
         return Network({2, 8, 9})
             .conv(4, 3, {.stride = 2, .padding = 1})
             .relu()
             .conv(6, 2, {.stride = 2})
             .linear(3)
             .classify(3);
       }},
      {"conv2d_last",
       [] {
         return Network({2, 3, 3}).conv(4, 3).classify(4);
       }},
      {"conv2d_stride_beyond_kernel",
       [] {
         return Network({3, 9, 8})
             .conv(5, 1, {.stride = 2})
             .conv(4, 2, {.stride = 3})
             .linear(3)
             .classify(3);
       }},
      {"conv2d_dilation",
       [] {
         return Network({2, 9, 8})
             .conv(4, 3, {.padding = 2, .dilation = 2})
             .relu()
             .conv(3, 2, {.dilation = 3})
             .linear(3)
             .classify(3);
       }},
      {"conv2d_groups",
       [] {
         return Network({6, 6, 5})
             .conv(4, 3, {.padding = 1, .groups = 2})
             .relu()
             .conv(8, 3, {.groups = 4})
             .linear(3)
             .classify(3);
       }},
      {"conv2d_depthwise",
       [] {
         return Network({5, 7, 6})
             .conv(5, 3, {.padding = 1, .groups = 5})
             .relu()
             .conv(10, 3, {.stride = 2, .groups = 5})
             .linear(3)
             .classify(3);
       }},
      {"conv2d_without_bias",
       [] {
         return Network({3, 6, 6})
             .conv(8, 3, {.weight = kNoBias})
             .relu()
             .linear(3, false)
             .classify(3);
       }},
      {"conv2d_all_options",
       [] {
         return Network({4, 11, 10})
             .conv(6, 3, {.stride = 2, .padding = 2, .dilation = 2, .groups = 2, .weight = kNoBias})
             .conv(3, 1)
             .linear(3)
             .classify(3);
       }},
      {"conv2d_16_channels",
       [] {
         return Network({16, 5, 5})
             .conv(16, 3, kSame)
             .relu()
             .max_pool(2, 2)
             .conv(24, 2)
             .relu()
             .linear(3)
             .classify(3);
       }},
      {"conv2d_of_one_point",
       [] {
         return Network({32, 1, 1}).conv(32, 3, {.padding = 2}).linear(2).classify(2);
       }},
      {"conv2d_kernel_beyond_image",
       [] {
         return Network({2, 3, 4}).conv(3, 5, {.padding = 2}).linear(3).classify(3);
       }},
  };
}

Cases pool_cases() {
  return {
      {"max_pool2d_of_relu",
       [] {
         return Network({1, 8, 8}).conv(5, 3).relu().max_pool(2, 2).linear(3).classify(3);
       }},
      {"max_pool2d_before_relu",
       [] {
         return Network({2, 7, 9}).conv(8, 2).max_pool(3, 2).relu().linear(3).classify(3);
       }},
      {"max_pool2d_overlapping",
       [] {
         return Network({1, 7, 7})
             .conv(6, 2)
             .relu()
             .max_pool(3, 1)
             .relu()
             .conv(5, 2)
             .linear(3)
             .classify(3);
       }},
      {"max_pool2d_first",
       [] {
         return Network({2, 8, 8}).max_pool(2, 3).conv(4, 2).relu().linear(3).classify(3);
       }},
      {"max_pool2d_padding",
       [] {
         return Network({2, 7, 8}).conv(4, 3, kSame).relu().max_pool(3, 2, 1).linear(3).classify(3);
       }},
      {"max_pool2d_padding_never_wins",
       [] {
         return Network({2, 5, 6}).conv(16, 3).max_pool(2, 2, 1).linear(3).classify(3);
       }},
      {"avg_pool2d",
       [] {
         return Network({2, 7, 8}).conv(3, 2).relu().avg_pool(3, 2).linear(3).classify(3);
       }},
      {"avg_pool2d_windows_apart",
       [] {
         return Network({1, 9, 10})
             .conv(16, 2)
             .avg_pool(2, 3)
             .relu()
             .conv(4, 1)
             .linear(3)
             .classify(3);
       }},
      {"avg_pool2d_first",
       [] {
         return Network({2, 5, 5}).avg_pool(2, 2).linear(3).classify(3);
       }},
      {"global_avg_pool",
       [] {
         return Network({3, 5, 6}).conv(4, 3).relu().global_avg_pool().linear(3).classify(3);
       }},
      {"global_avg_pool_last",
       [] {
         return Network({2, 4, 4}).conv(16, 1).conv(5, 3, kSame).global_avg_pool().classify(5);
       }},
      {"flatten",
       [] {
         return Network({2, 4, 5}).conv(3, 2).flatten().relu().linear(3).classify(3);
       }},
  };
}

}  // namespace

Cases image_cases() {
  Cases all = linear_cases();
  for (Cases& more : std::vector{conv2d_cases(), pool_cases()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace starling::conformance
