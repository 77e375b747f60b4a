// A library in place of NVIDIA's driver that accepts any code and can do nothing else: with it,
// cuDNN chooses and compiles engines for a described GPU without a GPU or a driver. It has the
// functions that cuDNN 9 looks for.

namespace {

constexpr int kSuccess = 0;
constexpr int kNoDevice = 100;
int something = 0;

}  // namespace

#define STARLING_REFUSES(name) \
  extern "C" int name() { return kNoDevice; }

STARLING_REFUSES(cuCtxGetCurrent)
STARLING_REFUSES(cuCtxGetLimit)
STARLING_REFUSES(cuCtxPopCurrent)
STARLING_REFUSES(cuCtxPushCurrent)
STARLING_REFUSES(cuDeviceGet)
STARLING_REFUSES(cuDeviceGetCount)
STARLING_REFUSES(cuDriverGetVersion)
STARLING_REFUSES(cuGetErrorName)
STARLING_REFUSES(cuInit)
STARLING_REFUSES(cuKernelGetAttribute)
STARLING_REFUSES(cuKernelGetFunction)
STARLING_REFUSES(cuKernelSetAttribute)
STARLING_REFUSES(cuLaunchCooperativeKernel)
STARLING_REFUSES(cuLaunchKernel)
STARLING_REFUSES(cuLaunchKernelEx)
STARLING_REFUSES(cuLibraryLoadFromFile)
STARLING_REFUSES(cuLibraryUnload)
STARLING_REFUSES(cuLinkAddData)
STARLING_REFUSES(cuLinkComplete)
STARLING_REFUSES(cuLinkCreate)
STARLING_REFUSES(cuLinkDestroy)
STARLING_REFUSES(cuOccupancyMaxPotentialClusterSize)
STARLING_REFUSES(cuStreamGetCtx)

extern "C" int cuGetErrorString(int, const char** text) {
  *text = "this driver has no GPU";
  return kSuccess;
}

/// Libraries and kernels are opaque handles.
extern "C" int cuLibraryLoadData(void** library, ...) {
  *library = &something;
  return kSuccess;
}

extern "C" int cuLibraryGetKernel(void** kernel, ...) {
  *kernel = &something;
  return kSuccess;
}
