"""How pages look: one small sheet inside of each, light and dark, from 320 pixels of width on."""

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--ink:#17202a;--soft:#51606f;--ground:#eef2f5;--paper:#fff;--line:#c3ccd5;
--sea:#0a5a78;--on-sea:#fff;--warn:#5f3b00;--warn-ground:#fff1cc;--bad:#9b1c1c}
@media (prefers-color-scheme:dark){:root{--ink:#e6ebf0;--soft:#a5b1bd;--ground:#0f151b;--paper:#18212a;--line:#3a4753;
--sea:#7cc7e3;--on-sea:#06202b;--warn:#ffdf9a;--warn-ground:#3a2c0b;--bad:#ff9d95}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);overflow-wrap:anywhere;
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif}
.bar,main{max-width:40rem;margin:0 auto 2rem;padding:.75rem 1rem}
.bar{margin-bottom:0}
.brand{font-weight:700;letter-spacing:.02em;color:var(--sea)}
main{background:var(--paper);border:1px solid var(--line);border-radius:.75rem;padding:1rem 1.25rem 1.5rem}
h1{font-size:1.4rem;line-height:1.25;margin:.25rem 0 .75rem}
h2{font-size:1.1rem;line-height:1.3;margin:1.75rem 0 .5rem}
h3{font-size:1rem;margin:0}
p{margin:.5rem 0}
ul{margin:.5rem 0;padding-left:1.25rem}
a{color:var(--sea)}
code{font:.95em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.soft{color:var(--soft);font-size:.92rem}
.host{font-size:1.25rem;font-weight:700;margin:.25rem 0}
.notice{background:var(--warn-ground);color:var(--warn);border-left:.25rem solid currentColor;border-radius:.25rem;
padding:.6rem .8rem}
.card{border:1px solid var(--line);border-radius:.5rem;padding:.75rem 1rem;margin:.75rem 0}
dl{display:grid;grid-template-columns:minmax(5.5rem,max-content) minmax(0,1fr);gap:.15rem .75rem;margin:.5rem 0}
dt{color:var(--soft)}
dd{margin:0}
dd ul{margin:0;padding:0;list-style:none}
summary{cursor:pointer;font-size:1.1rem;font-weight:600;margin:1.75rem 0 .5rem}
.choices{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem}
.row{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:center;border-top:1px solid var(--line);padding:.5rem 0}
.row>:first-child{flex:1 1 9rem;min-width:0}
label{display:inline-block;padding:.25rem 0}
.field>label{display:block;font-weight:600}
input[type=checkbox],input[type=radio]{width:1.15rem;height:1.15rem;vertical-align:-.2rem;margin:0 .15rem 0 0;
accent-color:var(--sea)}
input[type=text],input[type=password],select{font:inherit;width:100%;padding:.55rem .7rem;color:inherit;
background:var(--paper);border:1px solid var(--soft);border-radius:.4rem}
fieldset{border:0;margin:1rem 0 0;padding:0;min-width:0}
legend{padding:0;font-weight:600}
.actions{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.25rem}
button,.button{font:inherit;font-weight:600;padding:.55rem 1.1rem;border-radius:.4rem;border:1px solid var(--sea);
cursor:pointer;text-decoration:none;display:inline-block}
[hidden]{display:none}
.main{background:var(--sea);color:var(--on-sea)}
.done{border-left:.25rem solid var(--sea);padding:.6rem .8rem;background:var(--ground)}
.plain{background:transparent;color:var(--sea)}
.danger{background:transparent;color:var(--bad);border-color:currentColor}
.secret{display:block;padding:.75rem;border:1px dashed var(--soft);border-radius:.4rem;user-select:all}
:focus-visible{outline:3px solid var(--sea);outline-offset:2px}
@media (max-width:32rem){.row>div:first-child{flex-basis:100%}}
@media (max-width:41rem){main{border-width:1px 0;border-radius:0}}
""".strip()
"""CSS. The contrast of text is at least 4.5 : 1 in both (WCAG 2.2, 1.4.3)."""
