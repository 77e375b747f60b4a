#include "io/ucx/machine_proof.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/descriptor.hpp"
#include "base/file.hpp"

namespace starling::io::ucx {
namespace {

constexpr char kFile[] = "machine.key";
// In front of the proved text, so that a proof cannot be used elsewhere.
constexpr char kLabel[] = "starling machine 1";

std::string reason() { return std::error_code(errno, std::system_category()).message(); }

base::Status refuse(const std::string& path, const std::string& why) {
  return base::fail(base::ErrorCode::network,
                    "{}: {}: links between peers of this machine do without UCX", path, why);
}

std::string folder_of_user() {
  // If a program runs with another user's rights, the environment is not that user's.
  const char* const runtime = secure_getenv("XDG_RUNTIME_DIR");
  struct stat info {};
  if (runtime != nullptr && *runtime == '/' && stat(runtime, &info) == 0 &&
      info.st_uid == geteuid()) {
    return std::string(runtime) + "/starling";
  }
  return "/tmp/starling-" + std::to_string(geteuid());
}

/// In /tmp, somebody else may have made the folder first.
base::Status make_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return refuse(folder, reason());
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return refuse(folder, reason());
  if (!S_ISDIR(info.st_mode)) return refuse(folder, "is not a folder");
  if (info.st_uid != geteuid()) return refuse(folder, "belongs to another user");
  if ((info.st_mode & 077) != 0) return refuse(folder, "others may use it (mode 0700 is needed)");
  return {};
}

base::Status read_key(const std::string& path, std::array<std::uint8_t, MachineProof::kSize>& key) {
  const base::Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) return refuse(path, reason());
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return refuse(path, reason());
  if (!S_ISREG(info.st_mode)) return refuse(path, "is not a file");
  if (info.st_uid != geteuid()) return refuse(path, "belongs to another user");
  if ((info.st_mode & 077) != 0) return refuse(path, "others may read it (mode 0600 is needed)");
  if (info.st_size != static_cast<off_t>(key.size()) ||
      read(file.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    return refuse(path, "is not a key of starling; delete it");
  }
  return {};
}

}  // namespace

base::Result<MachineProof> MachineProof::open() { return open(folder_of_user()); }

base::Result<MachineProof> MachineProof::open(const std::string& folder) {
  if (auto status = make_folder(folder); !status) return base::fail(status.error());
  const std::string path = folder + "/" + kFile;
  MachineProof made;
  if (access(path.c_str(), F_OK) != 0) {
    if (RAND_priv_bytes(made.key_.data(), static_cast<int>(made.key_.size())) != 1) {
      return base::fail(base::ErrorCode::internal, "OpenSSL has no random numbers");
    }
    // If two peers start at once, one makes the key, and both read it.
    const auto created = base::create_private_file(path, std::as_bytes(std::span(made.key_)));
    if (!created) return base::fail(created.error());
  }
  if (auto status = read_key(path, made.key_); !status) return base::fail(status.error());
  struct stat network {};
  if (stat("/proc/self/ns/net", &network) != 0) {
    return base::fail(refuse("/proc/self/ns/net", reason()).error());
  }
  made.network_ = network.st_ino;
  return made;
}

MachineProof::Bytes MachineProof::of(base::ByteView text) const {
  base::Bytes message(sizeof kLabel + sizeof network_ + text.size());
  std::memcpy(message.data(), kLabel, sizeof kLabel);
  std::memcpy(message.data() + sizeof kLabel, &network_, sizeof network_);
  if (!text.empty()) {
    std::memcpy(message.data() + sizeof kLabel + sizeof network_, text.data(), text.size());
  }
  Bytes proof{};
  unsigned size = 0;
  ASSERT(HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
              reinterpret_cast<const unsigned char*>(message.data()), message.size(), proof.data(),
              &size) != nullptr &&
         size == proof.size());
  return proof;
}

bool MachineProof::accepts(base::ByteView text, base::ByteView proof) const {
  const Bytes right = of(text);
  return proof.size() == right.size() &&
         CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace starling::io::ucx
