// Events as JSON text, because object literals can't express `__proto__`, 1e999 or a repeated name. The time of receipt
// is 2026-01-15T12:00Z.

const receivedAt = Date.UTC(2026, 0, 15, 12)
const dayMs = 24 * 3_600_000

/** The text of an event with the two required fields and these. */
function eventWith(fields: string): string {
  return `{"site_id":"shop","event_type":"view",${fields}}`
}

function keys(count: number): string {
  return Array.from({ length: count }, (_, n) => `"k${n}":${n}`).join(',')
}

/** An object of so many levels: `{"a":{"a":1}}`. */
function nested(levels: number): string {
  return `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
}

const longestTexts = {
  site_id: 64,
  event_type: 64,
  session_id: 64,
  user_id: 64,
  anonymous_id: 64,
  event_id: 64,
  url: 2_048,
  referrer: 2_048,
}

/** Events that clients of several kinds send. */
const sent: readonly string[] = [
  '{"site_id":"app","event_type":"Product Viewed","event_id":"node-128b2f33","timestamp":1768470000000,"user_id":"user_35119","session_id":"","properties":{"order_id":"A-98702","total":109.71,"currency":"EUR","coupon":null,"shipping":{"city":"東京","method":"standard","cost":0},"products":[{"sku":"S7104","price":33.45,"quantity":1}]},"context":{"library":{"name":"server-sdk","version":"3.2.1"},"ip":"203.0.113.23","userAgent":"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X)","traits":{"plan":"free"}}}',
  '{"site_id":"tagged","event_type":"view_item","event_id":"6407843361572580","timestamp":1768470000148,"session_id":"970622655557","anonymous_id":"1321721361.1595085308","url":"https://m.example.org/settings","referrer":"https://m.example.org/","country":"FR","device_type":"mobile","properties":{"ep.item_name":"café","ep.item_category":"search","ep.list":"signup","epn.value":14,"epn.index":147,"consent":"granted","engagement_time_msec":22378}}',
  '{"site_id":"shop-4","event_type":"scroll","event_id":"d799e78a","timestamp":1768470000225,"session_id":"bf9c3ef1","anonymous_id":"8ce46767","user_id":null,"url":"https://www.example.com/login/159?utm_source=newsletter&utm_campaign=autumn%20sale&ref=71","referrer":"","device_type":"desktop","properties":{"title":"Pricing – Example & Co","screen":"1920x1080","language":"ja","viewport_w":1360,"logged_in":true},"country":"JP"}',
  '{"site_id":"tenant-186","event_type":"api_call","user_id":"acct:9238","timestamp":1768470000222,"duration_ms":33,"status":200,"route":"/v1/warenkorb","region":"us-east-1","properties":{"ok":true,"bytes":334088}}',
  '{"site_id":"mobile-app","event_type":"app_open","event_id":"3f18e7bb","timestamp":1768460000908,"session_id":"793810013472","anonymous_id":"4715F3F2","country":"in","device_type":"TABLET","properties":{"os":"Android","os_version":"15","app":{"version":"5.4.0","build":5172},"experiments":["exp-23","exp-19"],"battery":0.85,"note":"ok"}}',
  '{"site_id":"mobile-app","event_type":"purchase","event_id":"95034201","timestamp":1768400000901,"session_id":"918783978415","country":"de","device_type":"Mobile","properties":{"os":"Android","battery":0.29,"note":"line one\\nline \\"two\\"\\t\\u2713"}}',
  '{"site_id":"sensors","event_type":"reading"}',
]

export const goodEvents: readonly string[] = [
  ...sent,
  eventWith(
    `"timestamp":${receivedAt - 5_000},"session_id":"s1","user_id":"ada","url":"https://shop.example/?a=1","referrer":"not even a URL","country":"de","device_type":"Mobile","anonymous_id":"a1","event_id":"e1","properties":{"price":9.5}`,
  ),
  // Rows of every kind of time and id.
  eventWith('"event_id":"e1"'),
  eventWith('"event_id":"e2"'),
  eventWith('"event_id":"e1","timestamp":null'),
  eventWith(`"event_id":"e1","timestamp":${receivedAt}`),
  eventWith(`"event_id":"ünï ✓","timestamp":${receivedAt}`),
  eventWith(`"timestamp":${receivedAt - 1}`),
  eventWith(`"timestamp":${receivedAt - 0.25}`),
  eventWith('"timestamp":1.7e12'),
  eventWith(`"timestamp":${receivedAt + dayMs}`),
  eventWith(`"timestamp":${Date.UTC(1971, 0, 1)}`),
  '{"site_id":"a","event_type":"view","event_id":"bc"}',
  '{"site_id":"ab","event_type":"view","event_id":"c"}',
  // Fields that are null or empty count as absent.
  ...['timestamp', 'session_id', 'user_id', 'url', 'referrer', 'country', 'device_type', 'anonymous_id'].flatMap(
    (name) => [eventWith(`"${name}":null`)],
  ),
  eventWith('"event_id":"","url":"","country":"","device_type":"","properties":""'),
  eventWith('"event_id":null,"properties":null'),
  // Country and device.
  eventWith('"country":"De"'),
  eventWith('"country":"t1"'),
  eventWith('"country":"99"'),
  eventWith('"device_type":"tAbLeT"'),
  // Texts.
  ...Object.entries(longestTexts).map(
    ([name, max]) => `{"site_id":"shop","event_type":"view","${name}":"${'x'.repeat(max)}"}`,
  ),
  eventWith(`"user_id":"${'😀'.repeat(64)}"`),
  eventWith('"url":" Ünï\\n\\t\\"\\\\ \\u2028😀 "'),
  eventWith('"url":"a\\ud83db"'),
  '{"event_type":"Order Completed ✓","site_id":"shöp"}',
  // Names that only rows have are properties.
  eventWith('"received_at":1,"undated":1,"property_types":{"a":"number"},"environment":"dev"'),
  // Properties.
  eventWith(
    '"properties":{"s":"5","n":5,"f":0.1,"big":1e21,"neg":-2.5e-7,"zero":-0,"t":true,"f2":false,"l":[1,"x",null,{"a":[true]}],"e":[]}',
  ),
  eventWith('"properties":{"a":"x","empty":"","none":null}'),
  eventWith('"properties":{}'),
  eventWith('"properties":{"a":{},"b":{"c":{}}}'),
  eventWith('"properties":{"cart":{"items":2,"owner":{"name":"Ada"}},"a.b":1}'),
  eventWith('"properties":{"a.b":1,"a":{"b":"x"}}'),
  eventWith('"properties":{"a":{"b":"x"},"a.b":1}'),
  eventWith('"properties":{"a.b":1,"a":{"b":null}}'),
  eventWith('"properties":{"a":1,"a":2}'),
  eventWith('"properties":{"__proto__":1,"constructor":2,"toString":3,"deep":{"__proto__":{"x":4}}}'),
  eventWith('"__proto__":{"polluted":1},"constructor":2,"l":[{"__proto__":{"polluted":3}}]'),
  eventWith('"properties":{"10":1,"9":2,"b":3,"a":4}'),
  eventWith('"properties":{"a":"\\ud83d","l":["\\udc00",{"\\ud800":"\\ud800"}]}'),
  eventWith('"properties":{"\\ud83d":1,"\\udc00":2}'),
  eventWith('"properties":{"tab\\t":"new\\nline","quote\\"":"back\\\\slash"}'),
  eventWith('"plan":"pro","cart":{"items":2},"tags":["a"],"gone":null'),
  eventWith('"plan":"field","n":1,"properties":{"plan":"property","n":"text"}'),
  eventWith('"plan":"field","properties":{"plan":null}'),
  eventWith(`"properties":{${keys(100)}}`),
  eventWith(`"properties":{"${'k'.repeat(128)}":1}`),
  eventWith(`"properties":{"a":"${'x'.repeat(2_048)}"}`),
  eventWith(`"properties":${nested(31)}`),
  eventWith(`"properties":{"a":${'['.repeat(30)}1${']'.repeat(30)}}`),
]

export const badEvents: readonly string[] = [
  'null',
  '"text"',
  '5',
  'true',
  '[]',
  '[{"site_id":"shop","event_type":"view"}]',
  '{}',
  '{"event_type":"view"}',
  '{"site_id":null,"event_type":"view"}',
  '{"site_id":"","event_type":"view"}',
  '{"site_id":"shop"}',
  '{"site_id":"shop","event_type":""}',
  '{"site_id":"shop","event_type":null,"event_id":"e1"}',
  // Events with several problems: the first in the order of the fields is reported.
  '{"properties":true,"event_id":true,"timestamp":true,"event_type":true,"site_id":true}',
  eventWith('"properties":true,"event_id":true,"anonymous_id":true,"country":true'),
  eventWith('"other":{"":1},"device_type":true'),
  ...Object.entries(longestTexts).flatMap(([name, max]) => [
    `{"site_id":"shop","event_type":"view","${name}":"${'x'.repeat(max + 1)}"}`,
    `{"site_id":"shop","event_type":"view","${name}":"a\\u0000"}`,
    `{"site_id":"shop","event_type":"view","${name}":5}`,
  ]),
  eventWith(`"event_id":{"a":1}`),
  eventWith(`"user_id":"${'😀'.repeat(65)}","event_id":"e\\ud83d"`),
  ...[
    receivedAt + dayMs + 1,
    receivedAt + dayMs + 0.5,
    9e15,
    Date.UTC(1971, 0, 1) - 1,
    1_768_470_000,
    0,
    -1,
    '1e999',
    '-1e999',
    '"2026-01-01T00:00:00Z"',
    `"${receivedAt}"`,
    'true',
    '[1768470000000]',
  ].map((time) => eventWith(`"timestamp":${time},"event_id":"e1"`)),
  ...['"d"', '"deu"', '"d-"', '"ß"', '49', '["DE"]'].map((country) => eventWith(`"country":${country}`)),
  ...['"phone"', '"desktop "', '5', '{}'].map((device) => eventWith(`"device_type":${device}`)),
  ...['[]', '"text"', '5', 'true'].map((properties) => eventWith(`"properties":${properties}`)),
  eventWith('"properties":{"a":1e999}'),
  eventWith('"properties":{"a":{"b":-1e999}}'),
  eventWith('"properties":{"a":[[1e999]]}'),
  eventWith('"price":1e999'),
  eventWith('"":1'),
  eventWith('"properties":{"":1}'),
  eventWith('"properties":{"a":{"":1}}'),
  eventWith('"cart":{"":1}'),
  eventWith('"a\\u0000":1'),
  eventWith('"properties":{"a":{"\\u0000":1}}'),
  eventWith('"properties":{"a":"\\u0000"}'),
  eventWith('"properties":{"a":[{"\\u0000":1}]}'),
  eventWith('"cart":{"note":"a\\u0000"}'),
  eventWith(`"properties":{"${'k'.repeat(129)}":1}`),
  eventWith(`"properties":{"${'😀'.repeat(129)}":1}`),
  eventWith(`"properties":{"${'o'.repeat(64)}":{"${'i'.repeat(64)}":1}}`),
  eventWith(`"properties":{"a":"${'x'.repeat(2_049)}"}`),
  eventWith(`"plan":"${'x'.repeat(2_049)}"`),
  eventWith(`"properties":{${keys(101)}}`),
  eventWith(`"properties":${nested(32)}`),
  eventWith(`"a":${nested(32)}`),
  eventWith(`"properties":{"a":${'['.repeat(31)}1${']'.repeat(31)}}`),
]
