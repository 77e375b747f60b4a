#include "compute/cuda/launch_part.hpp"

// The build puts a number in place of the name: one unit of them all takes minutes.
template struct starling::compute::cuda::KernelPart<@PART@>;
