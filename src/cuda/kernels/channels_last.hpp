// Kernels for images whose channels come last (NHWC), as in plans with bfloat16: each call works on
// eight neighbouring channels, so that a GPU moves 16 bytes at once, and reads the channels'
// figures once for many points.
#pragma once

#include <tuple>

#include "cuda/kernels/fours.hpp"
#include "cuda/kernels/images.hpp"
#include "cuda/kernels/rows.hpp"
#include "cuda/kernels/shared.hpp"

namespace starling::compute::cuda {

/// Some points and eight of their channels, or fewer at the end.
struct ChannelGroup {
  std::size_t first;     ///< channel
  std::size_t count;     ///< channels
  std::size_t channels;  ///< of a point

  /// Whether points' groups are aligned for wide loads.
  [[nodiscard]] STARLING_BOTH bool is_wide() const { return channels % kEight == 0; }
  [[nodiscard]] STARLING_BOTH std::size_t at(std::size_t point) const {
    return point * channels + first;
  }
};

STARLING_BOTH inline ChannelGroup group_of(std::size_t group, std::size_t channels) {
  const std::size_t first = group * kEight;
  const std::size_t left = channels - first;
  return {first, left < kEight ? left : kEight, channels};
}

/// The group's elements of a point; zeros for missing channels.
STARLING_BOTH inline void load(const Floats& from, const ChannelGroup& group, std::size_t point,
                               float (&to)[kEight]) {
  const std::size_t at = group.at(point);
  if (!group.is_wide()) {
    for (std::size_t k = 0; k < kEight; ++k) to[k] = k < group.count ? from[at + k] : 0.0F;
    return;
  }
  from.visit([&](const auto& own) {
    const auto read = own.eight(at);
    for (std::size_t k = 0; k < kEight; ++k) to[k] = read[k];
  });
}

STARLING_BOTH inline void save(const float (&from)[kEight], const ChannelGroup& group,
                               std::size_t point, const FloatsTo& to) {
  const std::size_t at = group.at(point);
  if (group.is_wide()) return to.put_eight(at, from);
  for (std::size_t k = 0; k < kEight; ++k) {  // constant indices: arrays stay in registers
    if (k < group.count) to.put(at + k, from[k]);
  }
}

/// The group's elements of a point, one by one; zeros for missing channels.
struct ByElement {
  float of[kEight];

  STARLING_BOTH ByElement(const Floats& from, const ChannelGroup& group, std::size_t point) {
    load(from, group, point, of);
  }
  STARLING_BOTH float operator[](std::size_t k) const { return of[k]; }
};

/// Calls use(point, the group's elements in each source) for every `every`th point from `first` on
/// below `end`. The loads of several points are in flight before the first is used, so `use` may
/// write only to its own point.
template <class Use, class... Ts>
STARLING_BOTH void each_wide_point(const ChannelGroup& group, std::size_t first, std::size_t end,
                                   std::size_t every, const Use& use, const FloatsAs<Ts>&... from) {
  constexpr std::size_t kBytesAtOnce = 64;
  constexpr std::size_t kBytes = (sizeof(Eight<Ts>) + ...);
  constexpr std::size_t kPoints = kBytes < kBytesAtOnce ? kBytesAtOnce / kBytes : 1;
  std::size_t point = first;
  for (; point + (kPoints - 1) * every < end; point += kPoints * every) {
    std::tuple<Eight<Ts>...> read[kPoints];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (std::size_t p = 0; p < kPoints; ++p) {
      read[p] = {from.eight(group.at(point + p * every))...};
    }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (std::size_t p = 0; p < kPoints; ++p) {
      std::apply([&](const auto&... own) { use(point + p * every, own...); }, read[p]);
    }
  }
  for (; point < end; point += every) use(point, from.eight(group.at(point))...);
}

/// The same for any sources, and for groups that are not aligned.
template <class Use, class... Sources>
STARLING_BOTH void each_point(const ChannelGroup& group, std::size_t first, std::size_t end,
                              std::size_t every, const Use& use, const Sources&... from) {
  if (group.is_wide()) {
    return visit_all(
        [&](const auto&... own) { each_wide_point(group, first, end, every, use, own...); },
        from...);
  }
  for (std::size_t point = first; point < end; point += every) {
    use(point, ByElement(from, group, point)...);
  }
}

/// The figures of a group's channels; any values for missing channels.
struct GroupFigures {
  ChannelFigures of[kEight];

  STARLING_BOTH GroupFigures(const ChannelFigures* figures, const ChannelGroup& group) {
    for (std::size_t k = 0; k < kEight; ++k) {
      of[k] = figures[group.first + (k < group.count ? k : 0)];
    }
  }
  STARLING_BOTH const ChannelFigures& operator[](std::size_t k) const { return of[k]; }
};

/// Divides points among calls: one for each group of channels and lane; a lane has every `lanes`th
/// point, so that neighbouring calls work on neighbouring memory.
struct Lanes {
  std::size_t points;  ///< of the whole batch
  std::size_t channels;
  std::size_t lanes;

  [[nodiscard]] std::size_t calls() const { return groups_of(channels) * lanes; }

  /// The share of call `i`, whose first point is its lane.
  struct Share {
    ChannelGroup group;
    std::size_t lane;
  };
  [[nodiscard]] STARLING_BOTH Share share_of(std::size_t i) const {
    const Divided at = divide(i, groups_of(channels));
    return {group_of(at.rest, channels), at.quotient};
  }
};

/// BatchNormApply's.
struct NormLast {
  Lanes lanes;
  const ChannelFigures* figures;
  bool relu;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const auto [group, lane] = lanes.share_of(i);
    const GroupFigures of(figures, group);
    const auto norm = [&, &group = group](std::size_t point, const auto& read) {
      float value[kEight];
      for (std::size_t k = 0; k < kEight; ++k) {
        value[k] = normalised(of[k], read[k]);
        if (relu && value[k] < 0) value[k] = 0;
      }
      save(value, group, point, y);
    };
    each_point(group, lane, lanes.points, lanes.lanes, norm, x);
  }
};

/// SumNormalised's.
struct SumLast {
  static constexpr bool kCrowded = true;
  Lanes lanes;
  bool relu;
  Floats a;
  const ChannelFigures* a_figures;
  Floats b;
  const ChannelFigures* b_figures;  ///< null: b is added as it is
  FloatsTo to;

  STARLING_BOTH void operator()(std::size_t i) const {
    const auto [group, lane] = lanes.share_of(i);
    const GroupFigures of_a(a_figures, group);
    const GroupFigures of_b(b_figures == nullptr ? a_figures : b_figures, group);
    const auto add = [&, &group = group](std::size_t point, const auto& own, const auto& added) {
      float sum[kEight];
      for (std::size_t k = 0; k < kEight; ++k) {
        const float other = b_figures == nullptr ? added[k] : normalised(of_b[k], added[k]);
        sum[k] = normalised(of_a[k], own[k]) + other;
        if (relu && sum[k] < 0) sum[k] = 0;
      }
      save(sum, group, point, to);
    };
    each_point(group, lane, lanes.points, lanes.lanes, add, a, b);
  }
};

/// BatchNormBackward's: dx may be dy; it is zero after the step's samples.
struct NormBackwardLast {
  static constexpr bool kCrowded = true;
  Lanes lanes;
  std::size_t points;  ///< of a sample
  const StepState* step;
  const ChannelFigures* figures;
  bool relu;  ///< dy is that of a ReLU behind the norm
  Floats x;
  Floats dy;
  FloatsTo dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const auto [group, lane] = lanes.share_of(i);
    const GroupFigures of(figures, group);
    // Rounding x loses more than subtracting the mean in the sum does.
    float rest[kEight];
    for (std::size_t k = 0; k < kEight; ++k) rest[k] = of[k].rest - of[k].x_factor * of[k].mean;
    const std::size_t end = step->count * points;
    const auto go_back = [&, &group = group](std::size_t point, const auto& source,
                                             const auto& above) {
      float value[kEight];
      for (std::size_t k = 0; k < kEight; ++k) {
        const float gradient = relu ? passed(of[k], source[k], above[k]) : above[k];
        value[k] = of[k].dy_factor * gradient + of[k].x_factor * source[k] + rest[k];
        if (point >= end) value[k] = 0;
      }
      save(value, group, point, dx);
    };
    each_point(group, lane, lanes.points, lanes.lanes, go_back, x, dy);
  }
};

/// Sums over a chunk of points, for the channels of a team's lanes: each lane sums every `lanes`th
/// point of eight channels with kernel.add_up, then the lanes' sums are added in order.
template <class Team, class Kernel>
STARLING_BOTH void add_up_channels(const Team& team, std::size_t row, const Kernel& kernel) {
  struct Memory {
    Pair of[kTeamLanes * kEight];
  };
  const Channels& channels = kernel.channels;
  const TeamShape shape(channels.channels);
  const Divided at = divide(row, shape.teams);
  const std::size_t begin = at.quotient * shape.points();
  const std::size_t all = kernel.step->count * channels.points;
  const std::size_t end = begin + shape.points() < all ? begin + shape.points() : all;
  if (begin >= all) return;
  const std::size_t first_group = at.rest * shape.groups;
  Memory& memory = team.template shared<Memory>();
  team.each(kTeamLanes, [&](std::size_t lane) {
    const Divided own = divide(lane, shape.groups);
    const std::size_t group = first_group + own.rest;
    if (own.quotient >= shape.lanes || group >= groups_of(channels.channels)) return;
    const ChannelGroup of = group_of(group, channels.channels);
    Pair sums[kEight]{};
    const std::size_t point = begin + own.quotient;
    if (point < end) kernel.add_up(of, point, end, shape.lanes, sums);
    for (std::size_t k = 0; k < kEight; ++k) memory.of[k * kTeamLanes + lane] = sums[k];
  });
  team.meet();
  team.each(shape.groups * kEight, [&](std::size_t c) {
    const Divided at_group = divide(c, shape.groups);
    const std::size_t k = at_group.quotient;
    const std::size_t channel = (first_group + at_group.rest) * kEight + k;
    if (channel >= channels.channels) return;
    const Pair* const of = memory.of + k * kTeamLanes + at_group.rest;
    Pair sum{};
    for (std::size_t lane = 0; lane < shape.lanes; ++lane) sum += of[lane * shape.groups];
    kernel.parts[at.quotient * channels.channels + channel] = sum;
  });
  team.meet();
}

/// BatchNormSums'. A lane's few points are summed in float32, by their distance from the lane's
/// first point, which is at most the root of their number in deviations; these sums are then
/// converted to sums of the distance from the channel's first element, in double precision.
struct NormSumsLast {
  static constexpr bool kByRows = true;
  static constexpr bool kCrowded = true;
  Channels channels;
  const StepState* step;
  Floats x;
  Pair* parts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    add_up_channels(team, row, *this);
  }

  STARLING_BOTH void add_up(const ChannelGroup& group, std::size_t first, std::size_t end,
                            std::size_t every, Pair (&sums)[kEight]) const {
    float own[kEight];
    load(x, group, first, own);
    float sum[kEight]{};
    float squares[kEight]{};
    float count = 0;
    const auto add = [&](std::size_t, const auto& read) {
      for (std::size_t k = 0; k < kEight; ++k) {
        const float difference = read[k] - own[k];
        sum[k] += difference;
        squares[k] += difference * difference;
      }
      ++count;
    };
    each_point(group, first, end, every, add, x);
    float origin[kEight];
    load(x, group, 0, origin);
    for (std::size_t k = 0; k < kEight; ++k) {
      const double away = static_cast<double>(own[k]) - static_cast<double>(origin[k]);
      const auto inner = static_cast<double>(sum[k]);
      const auto number = static_cast<double>(count);
      sums[k] = {inner + number * away,
                 static_cast<double>(squares[k]) + away * (2 * inner + number * away)};
    }
  }
};

/// BatchNormGradientSums', also with a lane's few points in float32.
struct NormGradientSumsLast {
  static constexpr bool kByRows = true;
  static constexpr bool kCrowded = true;
  Channels channels;
  const StepState* step;
  bool relu;  ///< dy is that of a ReLU behind the norm
  Floats x;
  Floats dy;
  const ChannelFigures* figures;
  Pair* parts;

  template <class Team>
  STARLING_BOTH void operator()(const Team& team, std::size_t row) const {
    add_up_channels(team, row, *this);
  }

  STARLING_BOTH void add_up(const ChannelGroup& group, std::size_t first, std::size_t end,
                            std::size_t every, Pair (&sums)[kEight]) const {
    const GroupFigures of(figures, group);
    float plain[kEight]{};
    float weighted[kEight]{};
    const auto add = [&](std::size_t, const auto& source, const auto& above) {
      for (std::size_t k = 0; k < kEight; ++k) {
        const float gradient = relu ? passed(of[k], source[k], above[k]) : above[k];
        plain[k] += gradient;
        weighted[k] += gradient * (source[k] - of[k].mean);
      }
    };
    each_point(group, first, end, every, add, x, dy);
    for (std::size_t k = 0; k < kEight; ++k) {
      sums[k] = {static_cast<double>(plain[k]), static_cast<double>(weighted[k])};
    }
  }
};

/// MaxPoolForward's: one call for each group of channels of a point of y.
struct MaxPoolForwardLast {
  Window w;
  std::size_t channels;
  Floats x;
  FloatsTo y;
  std::int32_t* chosen;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided point = divide(i, groups_of(channels));
    const ChannelGroup group = group_of(point.rest, channels);
    Winner most[kEight];
    each_seen(w, place_of(point.quotient, w.out_height, w.out_width),
              [&](std::size_t seen, std::int32_t number) {
                float value[kEight];
                load(x, group, seen, value);
                for (std::size_t k = 0; k < kEight; ++k) most[k].meet(value[k], number);
              });
    float values[kEight];
    for (std::size_t k = 0; k < kEight; ++k) values[k] = most[k].value;
    save(values, group, point.quotient, y);
    for (std::size_t k = 0; k < kEight; ++k) {
      if (k < group.count) chosen[group.at(point.quotient) + k] = most[k].number;
    }
  }
};

/// MaxPoolBackward's: one call for each group of channels of a point of dx.
struct MaxPoolBackwardLast {
  Window w;
  std::size_t channels;
  Floats dy;
  const std::int32_t* chosen;
  FloatsTo dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided point = divide(i, groups_of(channels));
    const ChannelGroup group = group_of(point.rest, channels);
    float sums[kEight]{};
    each_window(w, point.quotient, [&](std::size_t window, std::size_t place) {
      float above[kEight];
      load(dy, group, window, above);
      for (std::size_t k = 0; k < kEight; ++k) {
        const bool is_there = k < group.count;
        if (is_there && chosen[group.at(window) + k] == static_cast<std::int32_t>(place)) {
          sums[k] += above[k];
        }
      }
    });
    save(sums, group, point.quotient, dx);
  }
};

/// PlaneMeans': one call for each channel of a sample.
struct PointMeansLast {
  std::size_t points;
  std::size_t channels;
  Floats x;
  float* y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, channels);
    const std::size_t first = at.quotient * points * channels + at.rest;
    float sum = 0;
    for (std::size_t point = 0; point < points; ++point) sum += x[first + point * channels];
    y[i] = sum / static_cast<float>(points);
  }
};

/// SpreadMean's: one call for each element of dx.
struct SpreadMeanLast {
  std::size_t points;
  std::size_t channels;
  const float* dy;
  float* dx;

  STARLING_BOTH void operator()(std::size_t i) const {
    const Divided at = divide(i, channels);
    const std::size_t sample = divide(at.quotient, points).quotient;
    dx[i] = dy[sample * channels + at.rest] / static_cast<float>(points);
  }
};

/// From channels first to channels last, or back. One call for each element of y. Weights are
/// images, too: one per output.
struct Relayout {
  std::size_t channels;
  std::size_t points;
  bool to_last;
  Floats x;
  FloatsTo y;

  STARLING_BOTH void operator()(std::size_t i) const {
    const std::size_t inner = to_last ? channels : points;
    const std::size_t outer = to_last ? points : channels;
    const Divided line = divide(i, inner);
    const Divided image = divide(line.quotient, outer);
    y.put(i, x[(image.quotient * inner + line.rest) * outer + image.rest]);
  }
};

}  // namespace starling::compute::cuda
