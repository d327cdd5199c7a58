//! AF_PACKET driver.
