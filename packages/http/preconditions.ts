/**
 * Whether `If-None-Match` names the tag. The comparison is weak, as RFC 9110 section 13.1.2 requires, because proxies
 * that compress make tags weak.
 */
export function matchesEtag(etag: string, ifNoneMatch = ''): boolean {
  return names(ifNoneMatch, etag) || names(ifNoneMatch, `W/${etag}`)
}

/**
 * Whether `If-Match` names the tag; true without the header. The comparison is strong, as RFC 9110 section 13.1.1
 * requires, because a weak tag may stand for other bytes, too.
 */
export function passesIfMatch(etag: string, ifMatch: string | undefined): boolean {
  return ifMatch === undefined || names(ifMatch, etag)
}

/** Whether the list holds the tag or is `*`. A tag may hold commas. */
function names(list: string, etag: string): boolean {
  return list.trim() === '*' || list.match(/(?:W\/)?"[^"]*"/g)?.some((tag) => tag === etag) === true
}
