// The entry point of every unit-test program; Boost.Test is linked, not included, for build time.
#define BOOST_TEST_MODULE starling
#include <boost/test/unit_test.hpp>
