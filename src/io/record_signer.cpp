#include "io/record_signer.hpp"

#include <algorithm>
#include <array>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/assert.hpp"

namespace starling::io {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

// The bytes before the 32 bytes of an Ed25519 key in the DER of its SubjectPublicKeyInfo (RFC
// 8410): a peer's id is the hash of both.
constexpr std::array<std::uint8_t, 12> kSpkiHead = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03,
                                                    0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

base::PeerId id_of(const wire::PublicKey& key) {
  std::array<std::uint8_t, kSpkiHead.size() + 32> info;
  std::copy(key.begin(), key.end(), std::copy(kSpkiHead.begin(), kSpkiHead.end(), info.begin()));
  base::PeerId id;
  SHA256(info.data(), info.size(), id.bytes.data());
  return id;
}

const unsigned char* data_of(base::ByteView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

wire::PublicKey RecordSigner::key() const {
  wire::PublicKey key{};
  std::size_t size = key.size();
  const bool done = EVP_PKEY_get_raw_public_key(identity_.key(), key.data(), &size) == 1;
  ASSERT(done && size == key.size(), "an identity holds an Ed25519 key");
  return key;
}

base::PeerId RecordSigner::owner_of(const wire::PublicKey& key) const { return id_of(key); }

wire::Signature RecordSigner::sign(base::ByteView bytes) {
  wire::Signature signature{};
  std::size_t size = signature.size();
  const Context context(EVP_MD_CTX_new());
  const bool done =
      context &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, identity_.key()) == 1 &&
      EVP_DigestSign(context.get(), signature.data(), &size, data_of(bytes), bytes.size()) == 1;
  ASSERT(done && size == signature.size(), "a few bytes can always be signed");
  return signature;
}

bool RecordSigner::verify(const base::PeerId& id, const wire::PublicKey& key, base::ByteView bytes,
                          const wire::Signature& signature) {
  if (id_of(key) != id) return false;
  const Key public_key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  const Context context(EVP_MD_CTX_new());
  const bool genuine =
      public_key && context &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
      EVP_DigestVerify(context.get(), signature.data(), signature.size(), data_of(bytes),
                       bytes.size()) == 1;
  ERR_clear_error();  // a stranger's wrong signature is not news
  return genuine;
}

}  // namespace starling::io
