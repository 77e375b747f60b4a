#include "io/plain_session.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/assert.hpp"

namespace starling::io {
namespace {

constexpr std::string_view kMagic = "STARLING";
constexpr std::size_t kVersionAt = kMagic.size();
constexpr std::size_t kIdAt = kVersionAt + 1;
constexpr std::size_t kPrefaceSize = kIdAt + sizeof(base::PeerId::bytes);

class PlainSession final : public Session {
 public:
  PlainSession(Role role, const base::PeerId& self) : role_(role) {
    const base::ByteView magic = base::bytes_of(kMagic.data(), kMagic.size());
    own_.assign(magic.begin(), magic.end());
    own_.push_back(std::byte{kPlainVersion});
    const auto id = std::as_bytes(std::span(self.bytes));
    own_.insert(own_.end(), id.begin(), id.end());
  }

  base::Status receive(base::Bytes stream) override {
    ASSERT(read_ == pending_.size(), "bytes were left unread");
    pending_ = std::move(stream);
    read_ = 0;
    if (established_) return {};
    read_ = std::min(kPrefaceSize - preface_.size(), pending_.size());
    const base::ByteView part = base::ByteView(pending_).first(read_);
    preface_.insert(preface_.end(), part.begin(), part.end());
    return judge();
  }

  Role role() const noexcept override { return role_; }

  bool established() const noexcept override { return established_; }

  const base::PeerId& peer() const noexcept override { return peer_; }

  base::Result<std::size_t> read(std::span<std::byte> out) override {
    const std::size_t size = std::min(out.size(), pending_.size() - read_);
    if (size > 0) std::memcpy(out.data(), pending_.data() + read_, size);
    read_ += size;
    return size;
  }

  base::Status write(base::ByteView plain, base::Bytes& stream) override {
    ASSERT(established_);
    stream.insert(stream.end(), plain.begin(), plain.end());
    return {};
  }

  base::Bytes shared_bytes() const override { return {}; }

  void output(base::Bytes& stream) override {
    if (role_ == Role::listener && !answer_) return;
    stream.insert(stream.end(), own_.begin(), own_.end());
    own_.clear();
  }

 private:
  base::Status judge() {
    const std::size_t known = std::min(preface_.size(), kMagic.size());
    if (std::memcmp(preface_.data(), kMagic.data(), known) != 0) {
      return base::fail(base::ErrorCode::protocol,
                        "the other end is not a peer with security off; [security] mode must be "
                        "the same at both ends");
    }
    if (preface_.size() < kPrefaceSize) return {};
    answer_ = true;  // also to another version, so that it can say the same
    const auto version = std::to_integer<unsigned>(preface_[kVersionAt]);
    if (version != kPlainVersion) {
      return base::fail(base::ErrorCode::protocol,
                        "the other end speaks link version {}, this peer speaks version {}",
                        version, kPlainVersion);
    }
    std::memcpy(peer_.bytes.data(), preface_.data() + kIdAt, peer_.bytes.size());
    established_ = true;
    return {};
  }

  const Role role_;
  base::Bytes own_;
  base::Bytes preface_;
  base::Bytes pending_;
  std::size_t read_ = 0;
  bool answer_ = false;
  bool established_ = false;
  base::PeerId peer_;
};

}  // namespace

std::unique_ptr<Session> make_plain_session(Role role, const base::PeerId& self) {
  return std::make_unique<PlainSession>(role, self);
}

}  // namespace starling::io
