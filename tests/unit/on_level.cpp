// on_level LEVEL PROGRAM [ARGUMENT...]: the program, or "skipped" where the processor lacks what it
// is compiled for.
#include <cstdio>
#include <string_view>

#include <unistd.h>

namespace {

constexpr int kSkipped = 77;  // as Meson wants it

bool has(std::string_view level) {
#ifdef __x86_64__
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (level == "avx2") return avx2;
  if (level == "avx512") {  // as far as compilers use it
    return avx2 && __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("bmi2") != 0 &&
           __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512cd") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
  }
#endif
  return level == "plain";
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fputs("usage: on_level LEVEL PROGRAM [ARGUMENT...]\n", stderr);
    return 2;
  }
  if (!has(words[1])) {
    std::printf("skipped: this processor has no %s\n", words[1]);
    return kSkipped;
  }
  execv(words[2], words + 2);
  std::perror(words[2]);
  return 1;
}
