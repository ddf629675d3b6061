import { defaultConversionEvent } from '@sluice/contracts/sites'
import { messages } from '../../messages/en.ts'
import { useMay, useSite } from '../../state/session.tsx'
import { Details } from '../../ui/details.tsx'
import { PageTitle } from '../../ui/states.tsx'
import { Ago, At } from '../../ui/time.tsx'
import { SnippetTabs } from '../first-event/snippet-tabs.tsx'
import { DeleteSite } from './delete-site.tsx'
import { Erasures } from './erasures.tsx'
import { texts } from './messages.ts'
import { SiteForm } from './site-form.tsx'

/** The site's settings, what can be erased of it, and its end. */
export default function Page() {
  const site = useSite()
  const mayChange = useMay('admin')
  const facts = [
    [texts.id, <bdi>{site.site_id}</bdi>],
    [texts.created, <At ms={site.created_at} />],
    [texts.first, site.first_event_at === null ? texts.noEvents : <At ms={site.first_event_at} />],
    [texts.last, site.last_event_at === null ? texts.noEvents : <Ago ms={site.last_event_at} />],
  ] as const
  return (
    <>
      <PageTitle title={messages.nav.settings} sentence={mayChange ? undefined : texts.readOnly} />
      <div class="stack site-settings">
        <Details
          items={
            mayChange
              ? facts
              : [
                  ...facts,
                  [texts.name, <bdi>{site.name}</bdi>],
                  [texts.zone, site.timezone],
                  [texts.conversion, <bdi>{site.conversion_event ?? defaultConversionEvent}</bdi>],
                  [texts.retention, site.retention_days ?? texts.unlimited],
                ]
          }
        />
        {mayChange ? <SiteForm /> : null}
        <section class="stack" aria-labelledby="send-title">
          <div class="stack-small">
            <h2 id="send-title">{texts.send}</h2>
            <p class="muted">{texts.sendText}</p>
          </div>
          <SnippetTabs siteId={site.site_id} />
        </section>
        {mayChange ? (
          <>
            <Erasures />
            <DeleteSite />
          </>
        ) : null}
      </div>
    </>
  )
}
