/**
 * Whether a text is an origin as browsers send it: `https://shop.example`, in lower case, without a path or a default
 * port.
 */
export function isOrigin(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) && new URL(text).origin === text
}

/**
 * Whether a text is an origin that the header `Origin` may have: that of a web page, or one of another scheme, as of
 * apps and extensions (`capacitor://localhost`, `chrome-extension://<id>`).
 */
export function isSentOrigin(text: string): boolean {
  return isOrigin(text) || /^(?!https?:)[a-z][a-z\d+.-]*:\/\/[^\s/?#@]+$/.test(text)
}
