import { connection } from 'next/server'
import type { ReactNode } from 'react'

/** Loads the browser SDK, which tracks page views: also those of Next.js's links, which don't load a page. */
export default async function Layout({ children }: { children: ReactNode }) {
  // The variables are read for each request: one build serves every environment.
  await connection()
  const { SLUICE_URL = 'http://localhost:8080', SLUICE_BROWSER_KEY, SHOP_URL } = process.env
  return (
    <html lang="en">
      <body>
        <script
          defer
          src={`${SLUICE_URL}/sluice.js`}
          data-site="shop"
          data-key={SLUICE_BROWSER_KEY}
          data-propagate={SHOP_URL}
        />
        {children}
      </body>
    </html>
  )
}
