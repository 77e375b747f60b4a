// A core of reach with its events, and its actions as lines of text, to be compared as a table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reach/core.hpp"

namespace starling::reach::testing {

/// A member by a letter; ids are in the order of the letters.
[[nodiscard]] base::PeerId id(char letter);
[[nodiscard]] base::LinkId link(std::uint32_t number);

class Script : public Members {
 public:
  explicit Script(char self = 'm', Config config = {}, bool secure = true,
                  std::vector<std::string> addresses = {"192.168.1.2:7000"})
      : core(config, id(self), std::move(addresses), secure, base::Rng(1)) {}

  /// In the member table from now on.
  void member(char letter, wire::Reachability reach = wire::Reachability::unknown,
              std::vector<std::string> addresses = {});
  /// A link that becomes ready; the member is one, too.
  void linked(std::uint32_t number, char letter, const std::string& observed, std::uint32_t via = 0,
              bool asked = false, const std::string& address = {});

  /// Its actions, one per line: "dial 1.2.3.4:7 direct", "send 1 ask t", ...
  std::vector<std::string> tell(const Event& event);
  template <class Message>
  std::vector<std::string> hears(std::uint32_t from, const Message& message) {
    return tell(Received{link(from), message});
  }
  std::vector<std::string> answered(const std::string& address, char by);
  /// Lets time pass, and expires the deadlines that are due meanwhile.
  std::vector<std::string> wait(base::Duration time);

  [[nodiscard]] const wire::MemberRecord* find(const base::PeerId& peer) const override;

  Core core;
  base::Time now{std::chrono::seconds(100)};
  Answered last_answer;
  std::uint64_t nonce = 0;      ///< of the last message sent that has one
  std::uint32_t number = 0;     ///< of the last message about a circuit that was sent
  std::vector<Action> actions;  ///< the last

 private:
  [[nodiscard]] std::vector<std::string> take(Outbox& out);
  [[nodiscard]] std::string line(const Action& action);

  std::map<base::PeerId, wire::MemberRecord> members_;
};

using Lines = std::vector<std::string>;

}  // namespace starling::reach::testing

namespace std {
inline ostream& operator<<(ostream& out, const vector<string>& lines) {
  for (const string& line : lines) out << "\n    " << line;
  return out;
}
}  // namespace std
