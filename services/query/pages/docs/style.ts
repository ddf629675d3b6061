/** Follows the reader’s light or dark scheme; wide screens show the contents at the side. */
export const style = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; --line: color-mix(in srgb, currentColor 25%, transparent); scroll-padding-top: 1rem }
body { margin: 0 auto; max-width: 84rem; padding: 0 1rem }
.skip { position: absolute; left: -100vw }
.skip:focus { left: 1rem; top: 1rem; padding: 0.5rem; background: Canvas }
nav ul { list-style: none; margin: 0 0 1rem; padding: 0 }
nav p { margin: 0; font-weight: 600 }
nav p:first-child { margin-bottom: 1rem }
nav li { padding: 0.15rem 0; overflow-wrap: anywhere }
nav code { font-size: 0.78rem }
a { color: LinkText }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line) }
h3 { margin-top: 2.5rem; overflow-wrap: anywhere }
h3 code { font-size: 1.1rem }
pre { padding: 1rem; border: 1px solid var(--line); border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere }
code { font: 0.85rem/1.5 ui-monospace, monospace }
table { width: 100%; border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem }
caption { text-align: left; font-weight: 600; padding: 0.25rem 0 }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.75rem 0.3rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word }
th[scope=row] { font-weight: 400 }
:focus-visible { outline: 2px solid; outline-offset: 2px }
@media (min-width: 64rem) {
  body { display: grid; grid-template-columns: 21rem minmax(0, 1fr); gap: 3rem }
  nav { position: sticky; top: 0; max-height: 100vh; box-sizing: border-box; overflow-y: auto; padding: 1.5rem 0 }
}
@media (max-width: 40rem) {
  table, thead, tbody, tr, th, td, caption { display: block; overflow-wrap: anywhere }
  thead, td:empty { display: none }
  td { border: 0; padding-top: 0 }
}
`
