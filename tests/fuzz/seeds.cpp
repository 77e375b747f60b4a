// Writes inputs to begin with, most of them with the program's own writers, so that they are of its
// present formats: `seeds FOLDER` makes FOLDER/FUZZER/seed-NAME.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/rng.hpp"
#include "delta/codec.hpp"
#include "delta/dense.hpp"
#include "io/router/line.hpp"
#include "runfile/invite.hpp"
#include "runfile/run_file.hpp"
#include "tests/fuzz/message_source.hpp"
#include "train/checkpoint_state.hpp"
#include "wire/frame.hpp"
#include "wire/messages.hpp"

using namespace starling;

namespace {

/// A folder with one of each fuzzer in it.
class Seeds {
 public:
  explicit Seeds(std::string folder) : folder_(std::move(folder)) {}

  void add(const std::string& fuzzer, const std::string& name, std::string_view bytes) {
    base::Status done = base::make_folder(folder_ + "/" + fuzzer);
    const std::string path = fmt::format("{}/{}/seed-{}", folder_, fuzzer, name);
    if (done) done = base::replace_file(path, bytes, base::Durability::unsynced);
    if (!done) failure_ = done.error().text;
  }
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }

 private:
  std::string folder_;
  std::string failure_;
};

std::vector<std::uint8_t> random_bytes(std::uint64_t seed, std::size_t count) {
  base::Rng rng(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(rng());
  return bytes;
}

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

// Some messages from random bytes, a few of each kind.
std::vector<wire::Message> some_messages() {
  constexpr std::size_t kOfAKind = 3;
  std::map<std::size_t, std::vector<wire::Message>> kinds;
  for (std::uint64_t seed = 1; seed < 500; ++seed) {
    const auto bytes = random_bytes(seed, 400);
    fuzz::Input input(bytes.data(), bytes.size());
    wire::Message message = fuzz::MessageSource(input, {}).any(fuzz::id_of(1));
    auto& kind = kinds[message.index()];
    if (kind.size() < kOfAKind) kind.push_back(std::move(message));
  }
  std::vector<wire::Message> all;
  for (auto& [index, kind] : kinds) {
    for (wire::Message& message : kind) all.push_back(std::move(message));
  }
  return all;
}

wire::Frame frame_of(const wire::Message& message) {
  const base::Bytes bytes = wire::encode(message);
  base::ByteView stream(bytes);
  wire::FrameReader reader(bytes.size());
  return reader.read(stream).value().value();
}

/// As messages.cpp reads it: type, size of the metadata, metadata, payload.
std::string message_input(const wire::Frame& frame) {
  std::string text(1, static_cast<char>(frame.type));
  text += static_cast<char>(frame.metadata_size % 256);
  text += static_cast<char>(frame.metadata_size / 256);
  return text + std::string(base::text_of(frame.bytes));
}

/// As a part in frames.cpp: a sound one, its type, and twice a size and bytes.
std::string frame_part(const wire::Frame& frame) {
  std::string text{'\1', static_cast<char>(frame.type)};
  for (const base::ByteView bytes : {frame.metadata(), frame.payload()}) {
    text += static_cast<char>(bytes.size());
    text += base::text_of(bytes);
  }
  return text;
}

void add_messages(Seeds& seeds) {
  std::string stream(1, '\x10');  // pieces of this many bytes, and one more
  std::size_t number = 0;
  for (const wire::Message& message : some_messages()) {
    const wire::Frame frame = frame_of(message);
    seeds.add("messages", std::to_string(++number), message_input(frame));
    if (frame.metadata_size < 256 && frame.payload().size() < 256) stream += frame_part(frame);
  }
  seeds.add("frames", "all", stream);
}

// As delta_check.cpp reads it: which size the replica has, and the payload.
void add_deltas(Seeds& seeds) {
  constexpr std::size_t kElements = 300;
  constexpr char kSize = 2;
  const std::vector<float> zero(kElements, 0.0F);
  std::vector<float> values = zero;
  for (std::size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 17) - 8;
  const delta::Difference difference{.base = values, .offset = {}, .mirror = zero};
  base::Bytes payload;
  for (const int bits : {1, 2, 3, 4, 8}) {
    delta::HostDelta coded;
    const delta::Options options{.density = 0.1, .bits = bits, .block = 16};
    if (!delta::encode(difference, options, payload, coded)) continue;
    seeds.add("delta_check", fmt::format("sparse-{}", bits),
              std::string(1, kSize) + std::string(base::text_of(payload)));
  }
  if (!delta::encode_dense(difference, payload)) return;
  seeds.add("delta_check", "dense", std::string(1, kSize) + std::string(base::text_of(payload)));
}

// As data_readers.cpp reads it: which reader, and the file.
void add_files(Seeds& seeds) {
  using namespace std::string_literals;
  seeds.add("data_readers", "idx",
            "\0\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
            "abcdef"s);
  seeds.add("data_readers", "npy",
            "\1\x93NUMPY\1\0\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
            "         \n"s +
                std::string(24, '\0'));
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  seeds.add("data_readers", "safetensors",
            "\3"s + static_cast<char>(header.size()) + std::string(7, '\0') + header +
                std::string(8, '\0'));
  seeds.add("data_readers", "state", "\4" + train::state_text({}));
  seeds.add("data_readers", "vocabulary", "\5abcabcab" + std::string(32, 'a'));
}

void add_texts(Seeds& seeds) {
  const runfile::Invite invite{.addresses = {"192.0.2.1:7", "[2001:db8::1]:7"}, .run = fuzz::kRun};
  seeds.add("invites", "invite", runfile::to_string(invite));
  seeds.add("invites", "plain",
            runfile::to_string({{"peer:1"}, fuzz::kRun, runfile::Security::off}));
  seeds.add("invites", "address", "peer.example:4000");
  seeds.add("invites", "address6", "[fe80::1]:4000");
  seeds.add("invites", "proxy", "socks5h://user:word@192.0.2.1:1080");
  seeds.add("invites", "ports", "4000-4010");
  seeds.add("run_files", "all-keys", runfile::to_toml({}));
}

// As routers.cpp reads it: the stranger, and its bytes.
void add_routers(Seeds& seeds) {
  using namespace std::string_literals;
  using namespace io::router;
  const Mapping mapping{Protocol::pcp, {base::Ip::v4(0xcb007109), 4000}, std::chrono::hours(1)};
  for (const Line& line : {Line(mapping), Line(Unmapped{true, "no router answers"})}) {
    const std::string text = write_line(line);
    const std::string name = line.index() == 0 ? "mapped" : "none";
    seeds.add("routers", "line-" + name, "\1" + text);
    const auto size = static_cast<char>(text.size() + 1);
    seeds.add("routers", "report-" + name, "\2\1"s + size + text + "\n");
  }
  seeds.add("routers", "nat-pmp", "\0\0\x80\0\0\0\0\0\1\xcb\0\x71\x09"s);
  seeds.add("routers", "socks5", "\3\0\0\x20\5\0\5\0\0\1\x7f\0\0\1\0\7"s);
  seeds.add("routers", "http", "\3\2\0\x3fHTTP/1.1 200 Connection established\r\n\r\n"s);
}

// As http.cpp reads it: bytes of a piece, and the input.
void add_http(Seeds& seeds) {
  const std::string whole = "\xff\x0f";
  seeds.add("http", "get", whole + "GET /status?x=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
  seeds.add("http", "head", whole + "HEAD / HTTP/1.0\r\n\r\n");
  seeds.add("http", "post",
            whole + "POST /leave HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
  seeds.add("http", "page",
            whole +
                "POST /leave HTTP/1.1\r\nHost: [::1]:7\r\nOrigin: http://other.example\r\n"
                "Sec-Fetch-Site: cross-site\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
                "0\r\n\r\nGET / HTTP/1.1\r\n\r\n");
}

// One line of each kind; the events are those of fuzz/observations.cpp.
void add_observations(Seeds& seeds) {
  seeds.add("observations", "run",
            R"({"kind":"start","at":0,"peer":0,"disk_full":false}
{"kind":"start","at":0,"peer":3,"disk_full":false}
{"kind":"settings","at":1,"degree":6,"batch":64}
{"kind":"status","at":2,"peer":0,"phase":"training","steps":3,"samples":9,"drift":0.1,)"
            R"("links":3,"membership_bytes":7}
{"kind":"members","at":3,"peer":0,"alive":[0,1,2,3],"dead":[],"left":[]}
{"kind":"event","at":10,"event":2,"begins":true}
{"kind":"members","at":12,"peer":0,"alive":[0,1],"dead":[3],"left":[2]}
{"kind":"links","at":21,"peer":0,"direct":[1],"circuit":[2]}
{"kind":"event","at":30,"event":4,"begins":true}
{"kind":"event","at":40,"event":4,"begins":false}
{"kind":"end","at":50,"peer":3,"code":0,"cannot_start":false}
{"kind":"over","at":60}
{"kind":"summary","at":61,"peer":0,"done":true,"accuracy":0.5,"loss":null,"sent_bytes":5,)"
            R"("replica":""}
)");
}

// Events of a core have no format of their own.
void add_events(Seeds& seeds) {
  for (const char* fuzzer :
       {"membership_events", "exchange_events", "peer_events", "circuits", "lan", "links"}) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      seeds.add(fuzzer, std::to_string(seed), text_of(random_bytes(seed, 100 * seed)));
    }
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    fmt::print(stderr, "usage: seeds FOLDER\n");
    return 2;
  }
  Seeds seeds(words[1]);
  add_messages(seeds);
  add_deltas(seeds);
  add_files(seeds);
  add_texts(seeds);
  add_routers(seeds);
  add_http(seeds);
  add_observations(seeds);
  add_events(seeds);
  if (!seeds.failure().empty()) fmt::print(stderr, "seeds: {}\n", seeds.failure());
  return seeds.failure().empty() ? 0 : 1;
}
