// Package browsertest tests the page in a real browser, headless Chromium.
package browsertest
