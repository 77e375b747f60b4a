#include "io/secret.hpp"

#include <string_view>

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "io/identity.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kFileMax = 256;

}  // namespace

base::Result<Secret> Secret::load(const std::string& path) {
  auto content = base::read_file(path, kFileMax);
  if (!content) {
    return base::fail(base::ErrorCode::run_file,
                      "security.secret: {}; `starling keygen FILE` makes one",
                      content.error().text);
  }
  std::string_view text(reinterpret_cast<const char*>(content->data()), content->size());
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  Secret secret;
  const bool valid = base::from_hex(text, secret.bytes_);
  OPENSSL_cleanse(content->data(), content->size());
  if (!valid) {
    return base::fail(base::ErrorCode::run_file,
                      "security.secret: {}: is not {} hexadecimal digits, as `starling keygen` "
                      "writes them",
                      path, 2 * kSize);
  }
  return secret;
}

base::Result<std::optional<Secret>> Secret::load_if_any(const std::string& path) {
  if (path.empty()) return std::nullopt;
  const auto loaded = load(path);
  if (!loaded) return base::fail(loaded.error());
  return *loaded;
}

base::Status Secret::create(const std::string& path) {
  std::array<std::uint8_t, kSize> bytes{};
  if (RAND_priv_bytes(bytes.data(), bytes.size()) != 1) {
    return base::fail(base::ErrorCode::internal, "OpenSSL has no random numbers: {}",
                      take_openssl_error());
  }
  std::string text = base::to_hex(bytes) + "\n";
  const auto created = base::create_private_file(path, base::bytes_of(text.data(), text.size()));
  OPENSSL_cleanse(bytes.data(), bytes.size());
  OPENSSL_cleanse(text.data(), text.size());
  if (!created) return base::fail(created.error());
  if (!*created) {
    return base::fail(base::ErrorCode::usage,
                      "{}: is there already and stays as it is; name another file", path);
  }
  return {};
}

}  // namespace starling::io
