// Passes values between threads, a bounded number at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/assert.hpp"

namespace starling::base {

/// A first-in-first-out queue between threads that never holds more than `capacity` items. Every
/// method may be called from any thread. close() wakes all waiters; queued items can still be
/// popped, and then pop() returns nothing.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) { ASSERT(capacity > 0); }

  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  /// Adds an item; false, with `item` untouched, when the queue is full or closed.
  [[nodiscard]] bool try_push(T&& item) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// Like try_push(), but first calls `make_room` with the waiting items (a std::deque<T>&) and the
  /// new one: it may remove items that the new one makes unnecessary, and returns false if nothing
  /// is to be added. The queue is locked meanwhile.
  template <class MakeRoom>
  [[nodiscard]] bool try_push(T&& item, MakeRoom&& make_room) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return false;
      if (!make_room(items_, std::as_const(item))) return true;
      if (items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// Adds an item, waiting for a place; false, with `item` untouched, when the queue is closed.
  [[nodiscard]] bool push(T&& item) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// Takes the oldest item, waiting for one; nothing once the queue is closed and empty.
  [[nodiscard]] std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take(lock);
  }

  /// Takes the oldest item if there is one.
  [[nodiscard]] std::optional<T> try_pop() {
    std::unique_lock lock(mutex_);
    return take(lock);
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  std::optional<T> take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    not_full_.notify_one();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace starling::base
