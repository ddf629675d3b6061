import { describe } from '@jest/globals'
import { describeWithChromium } from '../dashboard/support/use-browser.ts'
import { testBrowsers } from './snippet/browsers.ts'
import { testConsent } from './snippet/consent.ts'
import { testNextjs } from './snippet/nextjs.ts'
import { testPages } from './snippet/pages.ts'
import { testSending } from './snippet/sending.ts'
import { testServing } from './snippet/serving.ts'
import { useShop } from './snippet/use-shop.ts'
import { testVisits } from './snippet/visits.ts'

// One Sluice and one browser for all of them: their start takes longer than most of the tests.
describeWithChromium('the script for web pages', () => {
  const shop = useShop()
  describe('and visits: it', () => testVisits(shop))
  describe('and consent: it', () => testConsent(shop))
  describe('and browsers: it', () => testBrowsers(shop))
  describe('and sending: it', () => testSending(shop))
  describe('and its page: it', () => testPages(shop))
  describe('as it is served: it', () => testServing(shop))
  describe('and Next.js: it', () => testNextjs(shop))
})
