#include "base/bounded_queue.hpp"

#include <memory>
#include <thread>

#include <boost/test/unit_test.hpp>

using starling::base::BoundedQueue;

BOOST_AUTO_TEST_SUITE(bounded_queue)

BOOST_AUTO_TEST_CASE(full_queue_refuses_and_leaves_the_item) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  BOOST_TEST(queue.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  BOOST_TEST(!queue.try_push(std::move(second)));
  BOOST_TEST(*second == 2);
}

BOOST_AUTO_TEST_CASE(an_item_takes_the_place_of_what_it_makes_needless_or_is_needless_itself) {
  BoundedQueue<int> queue(2);
  BOOST_TEST(queue.try_push(1));
  BOOST_TEST(queue.try_push(2));
  BOOST_TEST(!queue.try_push(3, [](auto&, int) { return true; }));
  BOOST_TEST(queue.try_push(3, [](auto&, int) { return false; }));
  BOOST_TEST(queue.try_push(4, [](auto& waiting, int) { return std::erase(waiting, 1) == 1; }));
  BOOST_TEST(queue.pop().value() == 2);
  BOOST_TEST(queue.pop().value() == 4);
  BOOST_TEST(queue.size() == 0U);
}

BOOST_AUTO_TEST_CASE(close_hands_out_what_is_left_and_then_nothing) {
  BoundedQueue<int> queue(4);
  BOOST_TEST(queue.try_push(1));
  queue.close();
  BOOST_TEST(!queue.try_push(2));
  BOOST_TEST(queue.pop().value() == 1);
  BOOST_TEST(!queue.pop().has_value());
}

BOOST_AUTO_TEST_CASE(items_cross_threads_in_order) {
  BoundedQueue<int> queue(2);
  std::thread producer([&] {
    for (int i = 0; i < 1000; ++i) {
      if (!queue.push(int{i})) return;
    }
    queue.close();
  });
  int expected = 0;
  while (const auto item = queue.pop()) BOOST_TEST(*item == expected++);
  producer.join();
  BOOST_TEST(expected == 1000);
}

BOOST_AUTO_TEST_SUITE_END()
