/**
 * Whether a text is an origin as browsers send it: `https://shop.example`, in lower case, without a path or a default
 * port.
 */
export function isOrigin(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) && new URL(text).origin === text
}
