#include "io/secret.hpp"

#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/file.hpp"
#include "io/identity.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kFileMax = 256;
constexpr int kHex = 16;

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
  bool valid = text.size() == 2 * kSize;
  for (std::size_t i = 0; valid && i < kSize; ++i) {
    const char* digits = text.data() + 2 * i;
    std::uint8_t value = 0;
    const auto [end, error] = std::from_chars(digits, digits + 2, value, kHex);
    valid = error == std::errc{} && end == digits + 2;
    secret.bytes_[i] = std::byte{value};
  }
  OPENSSL_cleanse(content->data(), content->size());
  if (!valid) {
    return base::fail(base::ErrorCode::run_file,
                      "security.secret: {}: is not {} hexadecimal digits, as `starling keygen` "
                      "writes them",
                      path, 2 * kSize);
  }
  return secret;
}

base::Status Secret::create(const std::string& path) {
  std::array<unsigned char, kSize> bytes{};
  if (RAND_priv_bytes(bytes.data(), bytes.size()) != 1) {
    return base::fail(base::ErrorCode::internal, "OpenSSL has no random numbers: {}",
                      take_openssl_error());
  }
  std::string text = fmt::format("{:02x}\n", fmt::join(bytes, ""));
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
