/** Whether the browser sends Global Privacy Control or Do Not Track. */
export function wantsPrivacy(): boolean | undefined {
  const browser = navigator as { globalPrivacyControl?: boolean; doNotTrack?: string | null }
  return browser.doNotTrack === '1' || browser.globalPrivacyControl
}

/**
 * The device type, from the user agent. An iPad identifies itself as a Mac, but has a touch screen; so does an iPhone,
 * which is "like Mac OS X" and "Mobile".
 */
export function deviceType(): string {
  const { userAgent, maxTouchPoints } = navigator
  if (/iPad|Tablet|Android(?!.*Mobile)/.test(userAgent)) return 'tablet'
  if (userAgent.includes('Mobi')) return 'mobile'
  return maxTouchPoints > 1 && userAgent.includes('Mac') ? 'tablet' : 'desktop'
}

/** The URL of the page, without its hash unless that is a part of the page's address; an empty hash never is. */
export function pageUrl(hasHash?: boolean): string {
  return location.href.replace(hasHash ? /#$/ : /#[^]*/, '')
}
